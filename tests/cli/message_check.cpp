#include "cli/message_check.h"

#include <gtest/gtest.h>

namespace tandem::cli {

void expect_one_message(const Outcome& outcome, const std::vector<std::string>& parts, int code) {
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  EXPECT_EQ(outcome.err.find("[rank "), std::string::npos) << outcome.err;
  const std::size_t at = outcome.err.find("error: ");
  if (at == std::string::npos) return;
  const std::string line = outcome.err.substr(at, outcome.err.find('\n', at) - at);
  for (const std::string& part : parts) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
}

void replace_in(const std::filesystem::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  write_file(file, text.replace(at, from.size(), to));
}

}  // namespace tandem::cli
