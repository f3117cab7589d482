#include "base/config_changes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using Lines = std::vector<std::string>;

TEST(ConfigChanges, TellKeysWhoseValuesDiffer) {
  const char* before = R"(
name = "a"
[optimizer]
lr = 0.1
steps = [3, 4]
[data.augment]
flip = true
)";
  const char* now = R"(
# The order and the writing do not count.
optimizer.lr = 0.05
optimizer.steps = [ 3, 4 ]
name = "a"
[data]
workers = 2
)";
  EXPECT_EQ(config_changes(before, now),
            (Lines{"data.augment.flip: true, now not set", "data.workers: not set, now 2",
                   "optimizer.lr: 0.1, now 0.05"}));
  EXPECT_EQ(config_changes(before, before), Lines{});
  EXPECT_THROW(config_changes("a = ", now), InputError);
}

TEST(ConfigChanges, AreALineEachHoweverLongTheValue) {
  std::string list = "a = [1";
  for (int i = 2; i < 100; ++i) list += ", " + std::to_string(i);
  const Lines changes = config_changes("", list + "]");
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].find('\n'), std::string::npos) << changes[0];
  EXPECT_NE(changes[0].find(" 98, 99"), std::string::npos) << changes[0];
}

TEST(ConfigChanges, AFlatConfigHasDottedKeys) {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(flat_config("a.b = 1\nc = \"x\"", "run.toml"), (Settings{{"a.b", "1"}, {"c", "'x'"}}));
}

}  // namespace
}  // namespace tandem
