#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/program.h"

namespace tandem::cli {

/// Expects `code` before the time-out and one message of one line, which rank 0 gives and which has
/// all of `parts`.
void expect_one_message(const Outcome& outcome, const std::vector<std::string>& parts,
                        int code = 2);

/// Replaces the first `from` in a file.
void replace_in(const std::filesystem::path& file, const std::string& from, const std::string& to);

}  // namespace tandem::cli
