#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tandem {

/// What is wrong with a command line, in one line: the subcommand, the mistake, and where its help
/// is. An unknown option is named before an argument that is missing, for it may be its cause.
std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error);

/// Refuses an empty text where a path is wanted, as a variable that is not set leaves one.
CLI::Validator not_empty();

}  // namespace tandem
