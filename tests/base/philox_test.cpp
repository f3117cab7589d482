#include "base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tandem {
namespace {

/// Known answers of Random123's kat_vectors, "philox4x32 10".
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox(0)(0, 0), (Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(Philox(ones)(ones, ones),
            (Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822)(0x85a308d3243f6a88, 0x0370734413198a2e),
            (Philox::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnItsNameAlone) {
  const auto words = [](RandomStream stream) {
    std::vector<std::uint32_t> all;
    for (int i = 0; i < 9; ++i) all.push_back(stream.next_u32());
    return all;
  };
  EXPECT_EQ(words(RandomStream(1, 2)), words(RandomStream(1, 2)));
  EXPECT_NE(words(RandomStream(1, 2)), words(RandomStream(2, 1)));
  EXPECT_NE(words(RandomStream(1, 2)), words(RandomStream(1, 3)));
  EXPECT_EQ(words(RandomStream(1, "fc.weight")), words(RandomStream(1, "fc.weight")));
  EXPECT_NE(words(RandomStream(1, "fc.weight")), words(RandomStream(1, "fc.bias")));
  EXPECT_NE(words(RandomStream(1, "fc.weight")), words(RandomStream(2, "fc.weight")));
}

TEST(RandomStream, DoesNotRepeatItsWords) {
  RandomStream stream(5);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 64; ++i) words.push_back(stream.next_u32());
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(RandomStream, SeeksAnyWord) {
  for (std::uint64_t word = 0; word < 13; ++word) {
    RandomStream walked(7);
    for (std::uint64_t i = 0; i < word; ++i) walked.next_u32();
    RandomStream sought(7);
    sought.next_u32();
    sought.seek(word);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sought.next_u32(), walked.next_u32()) << word;
  }
}

TEST(RandomStream, UniformFillsItsRangeEvenly) {
  RandomStream stream(3);
  std::array<int, 10> bins{};
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    const float value = stream.uniform(-1.0F, 1.0F);
    ASSERT_GE(value, -1.0F);
    ASSERT_LT(value, 1.0F);
    ++bins[static_cast<std::size_t>((value + 1.0F) * 5.0F)];
  }
  double chi_squared = 0.0;
  for (const int count : bins) chi_squared += std::pow(count - draws / 10.0, 2) / (draws / 10.0);
  EXPECT_LT(chi_squared, 27.9) << "0.1 % point of 9 degrees of freedom";
}

TEST(RandomStream, BelowReachesEveryIntegerAndNoOther) {
  RandomStream stream(4);
  std::array<int, 7> counts{};
  for (int i = 0; i < 7000; ++i) ++counts.at(stream.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(stream.below(1), 0U);
}

TEST(RandomStream, NormalHasTheNormalMoments) {
  RandomStream stream(6);
  constexpr int draws = 200000;
  std::array<double, 5> moments{};
  for (int i = 0; i < draws; ++i) {
    const auto value = static_cast<double>(stream.normal());
    ASSERT_TRUE(std::isfinite(value));
    for (std::size_t power = 1; power < moments.size(); ++power) {
      moments[power] += std::pow(value, power) / draws;
    }
  }
  EXPECT_NEAR(moments[1], 0.0, 0.01);
  EXPECT_NEAR(moments[2], 1.0, 0.02);
  EXPECT_NEAR(moments[3], 0.0, 0.04);
  EXPECT_NEAR(moments[4], 3.0, 0.15);
}

}  // namespace
}  // namespace tandem
