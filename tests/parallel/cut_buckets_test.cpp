#include <gtest/gtest.h>

#include <functional>

#include "base/philox.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/self_communicator.h"
#include "support/message.h"

namespace tandem {
namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t mib_elements = mib / 4;

std::vector<ParameterSlice> in_a_row(const std::vector<std::int64_t>& elements) {
  std::vector<ParameterSlice> slices;
  std::int64_t offset = 0;
  for (const std::int64_t count : elements) {
    slices.push_back({"p" + std::to_string(slices.size()), offset, count});
    offset += count;
  }
  return slices;
}

using Buckets = std::vector<Bucket>;

TEST(CutBuckets, NothingYieldsNothing) { EXPECT_TRUE(cut_buckets({}).empty()); }

TEST(CutBuckets, TheFirstIsSmallTheOthersTwentyFiveMiB) {
  const auto slices = in_a_row(std::vector<std::int64_t>(60, mib_elements / 2));
  // 2 halves fill the first MiB; 50 halves the next 25; 8 are left.
  EXPECT_EQ(cut_buckets(slices), (Buckets{{0, 2, 0, mib_elements},
                                          {2, 52, mib_elements, 25 * mib_elements},
                                          {52, 60, 26 * mib_elements, 4 * mib_elements}}));
}

TEST(CutBuckets, TaperedOnesTakeHalfOfWhatIsLeftUntilTheyAreSmall) {
  const auto slices = in_a_row(std::vector<std::int64_t>(81, 10));
  EXPECT_EQ(cut_buckets(slices, {.first_bytes = 40, .bytes = 1000, .taper = true}),
            (Buckets{{0, 1, 0, 10},
                     {1, 26, 10, 250},    // the limit, less than half of 800
                     {26, 51, 260, 250},  // less than half of 550
                     {51, 66, 510, 150},  // half of 300
                     {66, 73, 660, 70},   // half of 150, without the slice that is cut
                     {73, 77, 730, 40},
                     {77, 79, 770, 20},
                     {79, 80, 790, 10},
                     {80, 81, 800, 10}}));
}

TEST(CutBuckets, NoneHoldsWhatIsToBeApart) {
  const auto slices = in_a_row({10, 10, 10, 10});
  const auto cut = [&](std::size_t apart, bool taper) {
    return cut_buckets(slices, {.first_bytes = 400, .bytes = 400, .taper = taper, .apart = apart});
  };
  const Buckets one{{0, 4, 0, 40}};
  for (const bool taper : {false, true}) {
    EXPECT_EQ(cut(2, taper), (Buckets{{0, 2, 0, 20}, {2, 4, 20, 20}}));
    EXPECT_EQ(cut(3, taper), (Buckets{{0, 3, 0, 30}, {3, 4, 30, 10}}));
    EXPECT_EQ(cut(0, taper), one);
    EXPECT_EQ(cut(4, taper), one) << "there is no such slice";
  }
}

TEST(CutBuckets, AParameterBeyondTheLimitHasABucketOfItsOwn) {
  const auto slices = in_a_row({10, 300, 5, 5, 99, 101, 3});
  EXPECT_EQ(cut_buckets(slices, {.first_bytes = 80, .bytes = 400}),
            (Buckets{{0, 1, 0, 10},    // 310 elements would be beyond 20
                     {1, 2, 10, 300},  // beyond 100 by itself
                     {2, 4, 310, 10},  // 109 would be beyond 100
                     {4, 5, 320, 99},
                     {5, 6, 419, 101},
                     {6, 7, 520, 3}}));
}

TEST(CutBuckets, ALargeFirstParameterIsTheFirstBucket) {
  EXPECT_EQ(cut_buckets(in_a_row({500, 10, 10}), {.first_bytes = 80, .bytes = 400}),
            (Buckets{{0, 1, 0, 500}, {1, 3, 500, 20}}));
}

TEST(CutBuckets, GapsBelongToTheirBucketAndCount) {
  const std::vector<ParameterSlice> slices{{"a", 16, 3}, {"b", 32, 8}, {"c", 48, 1}, {"d", 64, 4}};
  // a..c span 33 elements, within 36; d would make it 52.
  EXPECT_EQ(cut_buckets(slices, {.first_bytes = 144, .bytes = 144}),
            (Buckets{{0, 3, 16, 33}, {3, 4, 64, 4}}));
  // A limit met exactly is kept; one byte less is not.
  EXPECT_EQ(cut_buckets(slices, {.first_bytes = 132, .bytes = 144}).front().last, 3U);
  EXPECT_EQ(cut_buckets(slices, {.first_bytes = 131, .bytes = 144}).front().last, 2U);
}

TEST(CutBuckets, EverySliceLiesInExactlyOneBucket) {
  RandomStream random(3, "cut_buckets");
  for (int round = 0; round < 50; ++round) {
    std::vector<ParameterSlice> slices;
    std::int64_t offset = 0;
    for (std::uint64_t i = 0, count = random.below(80); i < count; ++i) {
      offset += static_cast<std::int64_t>(random.below(16));
      slices.push_back({"p", offset, static_cast<std::int64_t>(random.below(300))});
      offset += slices.back().elements;
    }
    const BucketOptions options{.first_bytes = 400, .bytes = 2000};
    std::size_t next = 0;
    for (const Bucket& bucket : cut_buckets(slices, options)) {
      EXPECT_EQ(bucket.first, next);
      EXPECT_GT(bucket.last, bucket.first);
      EXPECT_EQ(bucket.offset, slices[bucket.first].offset);
      const ParameterSlice& end = slices[bucket.last - 1];
      EXPECT_EQ(bucket.offset + bucket.elements, end.offset + end.elements);
      const std::int64_t limit = bucket.first == 0 ? options.first_bytes : options.bytes;
      EXPECT_TRUE(bucket.elements * 4 <= limit || bucket.last - bucket.first == 1);
      next = bucket.last;
    }
    EXPECT_EQ(next, slices.size());
  }
}

TEST(CutBuckets, NamesASliceThatOverlaps) {
  const std::vector<ParameterSlice> slices{{"a", 0, 10}, {"b", 9, 4}};
  EXPECT_NE(message_of<Error>([&] { cut_buckets(slices); }).find("gradient slice b"),
            std::string::npos);
}

class AloneBucketerTest : public testing::Test {
 protected:
  void expect_error(const std::string& part, const std::function<void()>& action) {
    const std::string message = message_of<Error>(action);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  SelfCommunicator self_;
  std::vector<float> gradients_ = std::vector<float>(30, 2.0F);
  Tensor arena_{gradients_.data(), {30}};
  std::vector<ParameterSlice> slices_ = in_a_row({10, 10, 10});
  GradientBucketer bucketer_{self_, arena_, slices_, cut_buckets(slices_, {.first_bytes = 40})};
};

TEST_F(AloneBucketerTest, LeavesTheGradientsAlone) {
  for (int step = 0; step < 2; ++step) {
    bucketer_.begin_step();
    for (const std::size_t i : {2U, 0U, 1U}) {
      bucketer_.ready(i);
      bucketer_.progress();
    }
    bucketer_.finish();
  }
  EXPECT_EQ(gradients_, std::vector<float>(30, 2.0F));
  EXPECT_EQ(bucketer_.take_stats().messages, 0);
}

TEST_F(AloneBucketerTest, TellsOfEachBucketInOrder) {
  const std::vector<Bucket> buckets = cut_buckets(slices_, {.first_bytes = 4, .bytes = 4});
  ASSERT_EQ(buckets.size(), slices_.size());
  // With gradients or, as nothing is summed, without.
  for (const Tensor& gradients : {arena_, Tensor()}) {
    GradientBucketer bucketer(self_, gradients, slices_, buckets);
    EXPECT_EQ(bucketer.sums().defined(), gradients.defined());
    std::vector<std::size_t> told;
    bucketer.update_each([&](std::size_t bucket) { told.push_back(bucket); });
    for (int step = 0; step < 2; ++step) {
      told.clear();
      bucketer.begin_step();
      expect_error("a step under way", [&] { bucketer.update_each({}); });
      bucketer.ready(2);
      bucketer.ready(1);
      EXPECT_TRUE(told.empty());
      bucketer.ready(0);
      EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2}));
      bucketer.finish();
    }
    EXPECT_EQ(bucketer.take_stats().messages, 0);
  }
}

TEST_F(AloneBucketerTest, NamesAParameterThatWasNeverReady) {
  bucketer_.begin_step();
  bucketer_.ready(0);
  bucketer_.ready(2);
  expect_error("gradient of p1 was never ready", [&] { bucketer_.finish(); });
  expect_error("1 of 3", [&] { bucketer_.finish(); });
}

TEST_F(AloneBucketerTest, RefusesStepsOutOfOrder) {
  expect_error("p1 is ready outside", [&] { bucketer_.ready(1); });
  expect_error("not begun", [&] { bucketer_.finish(); });
  bucketer_.begin_step();
  bucketer_.ready(1);
  expect_error("p1 is ready twice", [&] { bucketer_.ready(1); });
  expect_error("gradient 3 of 3", [&] { bucketer_.ready(3); });
  expect_error("before the last one was finished", [&] { bucketer_.begin_step(); });
}

TEST_F(AloneBucketerTest, RefusesBucketsOfOtherSlices) {
  expect_error("buckets of 2 slices for 3", [&] {
    GradientBucketer(self_, arena_, slices_, cut_buckets(in_a_row({10, 10})));
  });
}

TEST_F(AloneBucketerTest, RefusesSlicesBeyondTheArena) {
  expect_error("p1 ends at 40", [&] {
    const std::vector<ParameterSlice> beyond = in_a_row({20, 20});
    GradientBucketer(self_, arena_, beyond, cut_buckets(beyond));
  });
}

}  // namespace
}  // namespace tandem
