#include "train/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <ctime>

namespace tandem {
namespace {

TEST(Environment, HasItsFactsInOrder) {
  const auto facts = environment_facts();
  ASSERT_EQ(facts.size(), 5U);
  const std::array<std::string, 5> keys{"date", "host", "command", "tandem", "compiler"};
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(facts[i].first, keys[i]);

  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  EXPECT_EQ(facts[1].second, host.data());
  EXPECT_NE(facts[2].second.find("test_train"), std::string::npos);
  EXPECT_EQ(facts[3].second, EXPECTED_VERSION);
  EXPECT_NE(facts[4].second.find(' '), std::string::npos) << facts[4].second;
}

TEST(Environment, TimeIsNowInUtc) {
  const std::string text = utc_time();
  ASSERT_EQ(text.size(), 20U);
  EXPECT_EQ(text.back(), 'Z');
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  ASSERT_NE(end, nullptr);
  EXPECT_NEAR(static_cast<double>(::timegm(&parts)), static_cast<double>(std::time(nullptr)), 2.0);
}

}  // namespace
}  // namespace tandem
