#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// What is wrong with a command line, in one line: the subcommand, the mistake, and where its help
/// is. An unknown option is named before an argument that is missing, for it may be its cause.
std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error);

/// Refuses an empty text where `what` is wanted, as a variable that is not set leaves one.
CLI::Validator not_empty(std::string_view what = "path");

/// The same of a path, and one that begins with "~": a shell that sees a home folder in it replaces
/// it, but not behind a "=", where a folder of that name would be made.
CLI::Validator no_home_sign();

/// Refuses what is none of `words`, and names the nearest.
CLI::Validator one_of(std::vector<std::string> words);

/// Refuses what is no number from `low` to `high`, which count.
CLI::Validator within(double low, double high);
/// The same of whole numbers.
CLI::Validator within(int low, int high);

}  // namespace tandem
