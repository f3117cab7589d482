#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

TEST(Text, EditDistanceIsLevenshteins) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sunday", "saturday"), 3U);
  EXPECT_EQ(edit_distance("momentun", "momentum"), 1U);
  EXPECT_EQ(edit_distance("lr", "rl"), 2U) << "a swap counts as two";
}

TEST(Text, NearestIsNearOrNothing) {
  const std::vector<std::string> keys{"momentum", "nesterov", "weight_decay", "lr"};
  EXPECT_EQ(nearest("momentun", keys), "momentum");
  EXPECT_EQ(nearest("weight-decya", keys), "weight_decay");
  EXPECT_EQ(nearest("l", keys), "lr");
  EXPECT_EQ(nearest("something_else", keys), "");
  const std::vector<std::string> devices{"auto", "cpu", "cuda"};
  EXPECT_EQ(nearest("cpi", devices), "cpu");
  EXPECT_EQ(nearest("gpu", devices), "") << "differs in the first of three letters";
  const std::vector<std::string> kinds{"sgd", "lr", "fp32"};
  for (const auto& [word, meant] : std::vector<std::pair<const char*, const char*>>{
           {"Sgd", "sgd"}, {"gd", "sgd"}, {"rl", "lr"}, {"LR", "lr"}, {"p32", "fp32"}}) {
    EXPECT_EQ(nearest(word, kinds), meant);
  }
  EXPECT_EQ(nearest("wd", kinds), "");
  EXPECT_EQ(nearest("gp", devices), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(did_you_mean("nestrov", keys), " (did you mean 'nesterov'?)");
  EXPECT_EQ(did_you_mean("something_else", keys), "");
}

TEST(Text, FormatsForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(25U << 20U), "25.0 MiB");
  EXPECT_EQ(format_bytes(std::uint64_t{3} << 50U), "3072.0 TiB");
  EXPECT_EQ(format_duration(0.4), "0:00");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(123), "2:03");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(-5), "0:00");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), format_duration(1e9));
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(11689512), "11,689,512");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Text, Joins) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
}

TEST(OneLine, IsObeyedByNoTerminal) {
  EXPECT_EQ(one_line("caf\xc3\xa9 'a b'.jpg"), "caf\xc3\xa9 'a b'.jpg");
  EXPECT_EQ(one_line("a\nb\t\x1b[31m\x7f"), "a\\nb\\x09\\x1b[31m\\x7f");
}

}  // namespace
}  // namespace tandem
