#include "layers/plans/result_samples.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem {
namespace {

TEST(ResultSamples, AllOfAFew) {
  const ResultSamples samples = ResultSamples::of(37, 100);
  ASSERT_EQ(samples.count, 37);
  for (std::int64_t sample = 0; sample < 37; ++sample) EXPECT_EQ(samples.place(sample), sample);
}

TEST(ResultSamples, OneInEachRun) {
  for (const std::int64_t elements : {101LL, 199LL, 4096LL, 1'000'003LL, 6'000'000'000LL}) {
    const ResultSamples samples = ResultSamples::of(elements, 100);
    EXPECT_GE(samples.count, 100);
    EXPECT_LE(samples.count, 200);
    for (std::int64_t sample = 0; sample < samples.count; ++sample) {
      EXPECT_EQ(samples.place(sample) / samples.step, sample);
      EXPECT_LT(samples.place(sample), elements);
    }
  }
}

TEST(ResultSamples, MeetEveryChannelAndEverySecondPixel) {
  constexpr std::int64_t channels = 64;
  const ResultSamples samples = ResultSamples::of(channels * 100'000, 2048);
  std::set<std::int64_t> seen;
  std::int64_t odd_pixels = 0;
  for (std::int64_t sample = 0; sample < samples.count; ++sample) {
    seen.insert(samples.place(sample) % channels);
    odd_pixels += samples.place(sample) / channels % 2;
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(channels));
  EXPECT_GT(odd_pixels, samples.count / 3);
  EXPECT_LT(odd_pixels, samples.count * 2 / 3);
}

}  // namespace
}  // namespace tandem
