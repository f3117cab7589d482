#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "parallel/bf16_reference.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/mpi_test.h"

namespace tandem {
namespace {

using Limits = std::numeric_limits<float>;

/// Values of all sizes; where the ranks' order matters, and the roundings.
std::vector<float> values_of(int rank, std::size_t count, std::uint64_t seed = 31) {
  RandomStream random(seed, static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = random.normal() * std::exp(8.0F * random.normal());
  return values;
}

/// What the values of a device's ranks add up to.
std::vector<float> sums_of(const std::vector<int>& ranks, std::size_t count, std::uint64_t seed) {
  std::vector<float> sums = values_of(ranks.front(), count, seed);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<float> theirs = values_of(ranks[r], count, seed);
    for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
  }
  return sums;
}

/// What the ranks' values add up to by definition.
std::vector<float> expected_sums(std::size_t count, std::uint64_t seed = 31) {
  const std::vector<std::vector<int>> devices = devices_of_ranks();
  std::vector<float> sums = sums_of(devices.front(), count, seed);
  if (devices.size() == 1) return sums;
  for (float& sum : sums) sum = nearest_bf16(sum);
  for (std::size_t d = 1; d < devices.size(); ++d) {
    const std::vector<float> theirs = sums_of(devices[d], count, seed);
    for (std::size_t i = 0; i < count; ++i) sums[i] += nearest_bf16(theirs[i]);
  }
  for (float& sum : sums) sum = nearest_bf16(sum);
  return sums;
}

/// Scratch full of rubbish, 16-byte aligned.
class Scratch {
 public:
  explicit Scratch(std::int64_t elements)
      : elements_(elements),
        packs_(static_cast<std::size_t>((elements + 7) / 8), Pack{{0x7fc1, 0xffff}}) {}
  Tensor tensor() { return {packs_.data(), {elements_}, DType::bf16}; }

 private:
  struct alignas(16) Pack {
    std::uint16_t bits[8];
  };
  std::int64_t elements_;
  std::vector<Pack> packs_;
};

std::vector<Communicator*> worlds() {
  std::vector<Communicator*> all{&world()};
  if (splitting_world() != nullptr) all.push_back(splitting_world());
  return all;
}

void sum(Communicator& communicator, std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  Scratch scratch(communicator.bf16_scratch(count));
  communicator.all_reduce_bf16_async(view(values), scratch.tensor())->wait();
}

void expect_same_bits(const std::vector<float>& values) {
  expect_same_everywhere(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

TEST(Bf16Sum, IsTheRoundedSumOfRoundedValuesInRankOrder) {
  for (Communicator* communicator : worlds()) {
    for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 31U, 33U, 257U, 4099U, 100'003U}) {
      SCOPED_TRACE(count);
      if (communicator != &world() && count > 1000) continue;  // in messages of 5 elements
      std::vector<float> values = values_of(world().rank(), count);
      sum(*communicator, values);
      EXPECT_EQ(values, expected_sums(count));
      expect_same_bits(values);
    }
  }
}

TEST(Bf16Sum, RoundsTiesToEvenAndKeepsWhatIsNotFinite) {
  if (devices_of_ranks().size() == 1) return;
  const float tie = 1.0F + 1.0F / 256;  // between 1 and 1 + 1/128, of which 1 is even
  // On rank 0; the others have -0, which changes no number.
  const std::vector<float> mine{tie,
                                -tie,
                                tie + 1.0F / 128,
                                1.0F + 3.0F / 512,
                                0.0F,
                                -0.0F,
                                Limits::infinity(),
                                -Limits::infinity(),
                                Limits::max(),
                                Limits::denorm_min(),
                                Limits::min()};
  std::vector<float> expected{1.0F,
                              -1.0F,
                              1.0F + 1.0F / 64,
                              1.0F + 1.0F / 128,
                              0.0F,
                              -0.0F,
                              Limits::infinity(),
                              -Limits::infinity(),
                              Limits::infinity(),
                              0.0F,
                              Limits::min()};
  std::vector<float> values(mine.size(), -0.0F);
  if (world().rank() == 0) values = mine;
  sum(world(), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << values[i] << " instead of " << expected[i];
  }
  // One rank's NaN, whatever its bits, is every rank's; infinities of both signs make one.
  const int last = world().size() - 1;
  std::vector<float> bad(4, 1.0F);
  if (world().rank() == last) {
    bad = {Limits::quiet_NaN(), std::bit_cast<float>(0x7f800001U), -Limits::infinity(), 1.0F};
  } else if (world().rank() == 0) {
    bad[2] = Limits::infinity();
  }
  sum(world(), bad);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(bad[i])) << i;
  EXPECT_EQ(bad[3], static_cast<float>(world().size()));
  expect_same_bits(bad);
}

TEST(Bf16Sum, SeveralGoOnAtOnceWhateverTheRanksTestFirst) {
  for (Communicator* communicator : worlds()) {
    std::vector<std::vector<float>> values;
    std::vector<Scratch> scratch;
    constexpr std::size_t count = 301;
    for (std::uint64_t i = 0; i < 5; ++i) {
      values.push_back(values_of(world().rank(), count, i));
      scratch.emplace_back(communicator->bf16_scratch(count));
    }
    std::vector<std::unique_ptr<Request>> requests;
    for (std::size_t i = 0; i < 5; ++i) {
      requests.push_back(
          communicator->all_reduce_bf16_async(view(values[i]), scratch[i].tensor(), "a bucket"));
    }
    // Each rank in another order, so that the second exchanges begin in other orders.
    RandomStream random(5, static_cast<std::uint64_t>(world().rank()));
    for (int i = 0; i < 200; ++i) requests[random.below(5)]->test();
    for (const auto& request : requests) request->wait();
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(requests[i]->test());
      EXPECT_EQ(values[i], expected_sums(count, i));
    }
  }
}

TEST(Bf16Sum, ChecksItsArguments) {
  const auto expect_error = [](const std::string& part, const Tensor& tensor,
                               const Tensor& scratch) {
    const std::string message =
        message_of<Error>([&] { world().all_reduce_bf16_async(tensor, scratch); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  std::vector<std::int32_t> integers(3);
  expect_error("the elements are i32, not f32", view(integers), Tensor());
  if (devices_of_ranks().size() == 1) return;
  std::vector<float> values(30);
  Scratch scratch(world().bf16_scratch(30));
  Scratch shorter(world().bf16_scratch(30) - 8);
  expect_error("without memory", view(values), Tensor(nullptr, {100}, DType::bf16));
  expect_error("scratch of", view(values), shorter.tensor());
  const auto needed = world().bf16_scratch(30);
  expect_error(
      "not 16-byte aligned", view(values),
      Tensor(static_cast<std::uint16_t*>(scratch.tensor().raw()) + 1, {needed}, DType::bf16));
}

TEST(CompressedGradients, AreSummedBucketByBucket) {
  std::vector<ParameterSlice> slices;
  std::int64_t offset = 0;
  for (int i = 0; i < 29; ++i) {
    const std::int64_t elements = i == 5 ? 0 : i == 20 ? 5001 : 1 + (i * 389) % 703;
    slices.push_back({"layer" + std::to_string(i) + ".weight", offset, elements});
    offset += elements + i % 3;  // at any offset
  }
  const auto count = static_cast<std::size_t>(offset);
  std::vector<float> gradients(count);
  const BucketOptions options{.first_bytes = 1024, .bytes = 8192};
  const std::vector<Bucket> buckets = cut_buckets(slices, options);
  ASSERT_GE(buckets.size(), 5U);
  Scratch scratch(bf16_scratch(world(), buckets));
  GradientBucketer bucketer(world(), view(gradients), slices, buckets, scratch.tensor());
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::ranges::copy(values_of(world().rank(), count, step), gradients.begin());
    bucketer.begin_step();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      bucketer.ready(i);
      bucketer.progress();
    }
    bucketer.finish();
    const std::vector<float> sums = expected_sums(count, step);
    for (const ParameterSlice& slice : slices) {
      for (std::int64_t e = slice.offset; e < slice.offset + slice.elements; ++e) {
        const auto at = static_cast<std::size_t>(e);
        ASSERT_EQ(gradients[at], sums[at]) << slice.name;
      }
    }
  }
  std::int64_t elements = 0;
  for (const Bucket& bucket : buckets) elements += bucket.elements;
  const int element_bytes = devices_of_ranks().size() == 1 ? 4 : 2;
  EXPECT_EQ(bucketer.take_stats().bytes, world().size() == 1 ? 0 : 3 * element_bytes * elements);
}

}  // namespace
}  // namespace tandem
