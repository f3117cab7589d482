#include "parallel/device_test.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/philox.h"
#include "device/cuda_check.h"
#include "device/cuda_graph.h"
#include "parallel/bf16_reference.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/slice_hashes.h"
#include "parallel/stream_watch.h"

// What of GPUs' communicators is not as of host kinds': graphs, element types.

namespace tandem {
namespace {

constexpr std::size_t sizes[] = {1, 2, 3, 7, 257, 65537, 1'000'003};

/// Whole numbers below 256 as bf16 and f16, which hold them exactly.
std::uint16_t bf16_bits(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}
std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits == 0) return 0;
  return static_cast<std::uint16_t>(((bits >> 23) - 127 + 15) << 10 | (bits >> 13 & 0x3ff));
}

std::vector<float> zeros(std::size_t count) { return std::vector<float>(count); }

TEST(DeviceCommunicator, SumsHalvesOfBothKinds) {
  for (const std::size_t count : sizes) {
    SCOPED_TRACE(count);
    const std::vector<float> mine = contributions<float>(gpus().rank(), count);
    const std::vector<float> total = sums<float>(count);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const auto bits = [&](const std::vector<float>& values) {
        std::vector<std::uint16_t> result;
        for (const float value : values) {
          result.push_back(dtype == DType::bf16 ? bf16_bits(value) : f16_bits(value));
        }
        return result;
      };
      const OnGpu<std::uint16_t> halves(bits(mine));
      gpus().all_reduce(halves.tensor(dtype), ReduceOp::sum);
      EXPECT_EQ(halves.get(), bits(total)) << name_of(dtype);
    }
  }
}

TEST(DeviceCommunicator, SumsDoublesToTheirLastBits) {
  for (const std::size_t count : sizes) {
    // A float would lose the small parts.
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = 1.0 + std::ldexp(contribution<double>(gpus().rank(), i), -40);
    }
    std::vector<double> expected(count);
    for (int rank = 0; rank < gpus().size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        expected[i] += 1.0 + std::ldexp(contribution<double>(rank, i), -40);
      }
    }
    const OnGpu<double> on_gpu(values);
    gpus().sum_doubles(on_gpu.data(), static_cast<std::int64_t>(count));
    EXPECT_EQ(on_gpu.get(), expected) << count;
  }
}

TEST(DeviceCommunicator, ReducesAfterWhatWasEnqueuedAndBeforeWhatFollows) {
  constexpr std::size_t count = 3'000'001;
  OnGpu<float> from(contributions<float>(gpus().rank(), count));
  OnGpu<float> to(zeros(count));
  OnGpu<float> result(zeros(count));
  for (int run = 0; run < 5; ++run) {
    enqueue_copy(from.data(), count, to.data());
    const auto request = gpus().all_reduce_async(to.tensor(DType::f32), ReduceOp::sum);
    request->wait();
    enqueue_copy(to.data(), count, result.data());
    EXPECT_EQ(result.get(), sums<float>(count));
  }
}

TEST(DeviceCommunicator, RepeatsInAGraphWithWhateverDataIsThere) {
  for (const std::size_t count : sizes) {
    SCOPED_TRACE(count);
    OnGpu<float> first(zeros(count));
    OnGpu<float> second(zeros(count));
    OnGpu<float> third(zeros(count));
    bool capturing = false;
    const auto enqueue = [&] {
      const auto request = gpus().all_reduce_async(first.tensor(DType::f32), ReduceOp::sum);
      if (capturing) {
        EXPECT_FALSE(request->test());
      }
      const auto other = gpus().all_reduce_async(second.tensor(DType::f32), ReduceOp::max);
      gpus().all_reduce(third.tensor(DType::f32), ReduceOp::sum);
      other->wait();
      request->wait();
    };
    enqueue();  // connects
    capturing = true;
    CudaGraph graph(gpu(), enqueue);
    for (int launch = 0; launch < 4; ++launch) {
      const auto values = [&](int rank) {
        std::vector<float> mine = contributions<float>(rank, count);
        for (float& value : mine) value += static_cast<float>(launch);
        return mine;
      };
      std::vector<float> total(count);
      std::vector<float> most(count);
      for (int rank = 0; rank < gpus().size(); ++rank) {
        const std::vector<float> theirs = values(rank);
        for (std::size_t i = 0; i < count; ++i) {
          total[i] += theirs[i];
          most[i] = std::max(most[i], theirs[i]);
        }
      }
      first.set(values(gpus().rank()));
      second.set(values(gpus().rank()));
      third.set(values(gpus().rank()));
      graph.launch();
      // An operation outside of the graph, behind it.
      OnGpu<std::int32_t> one(std::vector<std::int32_t>{1});
      gpus().all_reduce(one.tensor(DType::i32), ReduceOp::sum);
      wait_for_device(gpus(), gpu(), "a graph");
      EXPECT_EQ(first.get(), total);
      EXPECT_EQ(second.get(), most);
      EXPECT_EQ(third.get(), total);
      EXPECT_EQ(one.get()[0], gpus().size());
    }
  }
}

/// Values whose sum depends on its order in the last bits.
std::vector<float> awkward_values(int rank, std::size_t count) {
  RandomStream random(23, static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = random.normal() * std::exp(4.0F * random.normal());
  return values;
}

TEST(DeviceCommunicator, AGraphLeavesTheSameBitsOnEveryRankEachTime) {
  constexpr std::size_t count = 300'001;
  const std::vector<float> mine = awkward_values(gpus().rank(), count);
  OnGpu<float> values(mine);
  const auto enqueue = [&] {
    gpus().all_reduce_async(values.tensor(DType::f32), ReduceOp::sum)->wait();
  };
  enqueue();
  const std::vector<float> eager = values.get();
  CudaGraph graph(gpu(), enqueue);
  for (int launch = 0; launch < 5; ++launch) {
    values.set(mine);
    graph.launch();
    const std::vector<float> now = values.get();
    EXPECT_EQ(now, eager);
    expect_same_everywhere({reinterpret_cast<const char*>(now.data()), now.size() * sizeof(float)});
  }
}

/// 23 slices of odd sizes, one of them empty.
std::vector<ParameterSlice> odd_slices() {
  std::vector<ParameterSlice> slices;
  std::int64_t offset = 0;
  for (int i = 0; i < 23; ++i) {
    const std::int64_t elements = i == 4 ? 0 : i == 11 ? 70'001 : 1 + (i * 389) % 2003;
    slices.push_back({"layer" + std::to_string(i), offset, elements});
    offset = (offset + elements + 15) / 16 * 16;
  }
  return slices;
}

/// Whole numbers, exact as bf16, added up over the ranks; `compressed`: rounded between GPUs.
template <typename Values>
std::vector<float> gradient_sums(const Values& values, std::size_t count, bool compressed) {
  const std::vector<std::vector<int>> by_gpu = devices_of_ranks();
  const auto rounded = [&](float sum) {
    return compressed && by_gpu.size() > 1 ? nearest_bf16(sum) : sum;
  };
  std::vector<float> total(count);
  for (const std::vector<int>& ranks : by_gpu) {
    std::vector<float> part(count);
    for (const int rank : ranks) {
      const std::vector<float> theirs = values(rank);
      for (std::size_t i = 0; i < count; ++i) part[i] += theirs[i];
    }
    for (std::size_t i = 0; i < count; ++i) total[i] += rounded(part[i]);
  }
  for (float& sum : total) sum = rounded(sum);
  return total;
}

/// `compressed`: as bf16.
void expect_sums_in_a_graph(bool compressed) {
  const std::vector<ParameterSlice> slices = odd_slices();
  const auto count = static_cast<std::size_t>(slices.back().offset + slices.back().elements);
  OnGpu<float> computed(zeros(count));
  OnGpu<float> gradients(zeros(count));
  const BucketOptions options{.first_bytes = 4096, .bytes = 32'768};
  const std::vector<Bucket> buckets = cut_buckets(slices, options);
  const std::int64_t needed = bf16_scratch(gpus(), buckets);
  const OnGpu<std::uint16_t> scratch(
      std::vector<std::uint16_t>(static_cast<std::size_t>(needed), 0x7fc0));
  GradientBucketer bucketer(gpus(), gradients.tensor(DType::f32), slices, buckets,
                            compressed && needed > 0 ? scratch.tensor(DType::bf16) : Tensor());
  ASSERT_GE(bucketer.buckets().size(), 5U);
  const auto step = [&] {
    bucketer.begin_step();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      enqueue_copy(computed.data() + slices[i].offset, slices[i].elements,
                   gradients.data() + slices[i].offset);
      bucketer.ready(i);
      bucketer.progress();
    }
    bucketer.finish();
  };
  step();
  CudaGraph graph(gpu(), step);
  for (int launch = 0; launch < 6; ++launch) {
    const auto values = [&](int rank) {
      std::vector<float> mine(count);
      for (std::size_t i = 0; i < count; ++i) {
        mine[i] = static_cast<float>((static_cast<std::size_t>(rank * 31 + launch * 7) + i) % 101);
      }
      return mine;
    };
    const std::vector<float> total = gradient_sums(values, count, compressed);
    computed.set(values(gpus().rank()));
    graph.launch();
    wait_for_device(gpus(), gpu(), "a step");
    std::vector<float> found(count);
    copy_to_host(gpu(), bucketer.sums().raw(), count * sizeof(float), found.data());
    for (const ParameterSlice& slice : slices) {
      for (std::int64_t e = 0; e < slice.elements; ++e) {
        const auto i = static_cast<std::size_t>(slice.offset + e);
        ASSERT_EQ(found[i], total[i]) << slice.name << " element " << e;
      }
    }
  }
  EXPECT_FALSE(bucketer.take_stats().exposed_seconds.has_value());
}

TEST(GradientBucketerOnGpus, SumsInAGraphThatIsLaunchedAgain) { expect_sums_in_a_graph(false); }

TEST(GradientBucketerOnGpus, SumsCompressedGradientsInAGraph) { expect_sums_in_a_graph(true); }

TEST(SliceHashesOnGpus, AreThoseOfTheCpu) {
  const std::vector<ParameterSlice> slices = odd_slices();
  const auto count = static_cast<std::size_t>(slices.back().offset + slices.back().elements + 9);
  std::vector<float> values = awkward_values(0, count);
  const OnGpu<float> there(values);
  std::vector<ElementRange> ranges;
  for (const ParameterSlice& slice : slices) ranges.push_back({slice.offset, slice.elements});
  ranges.push_back({0, static_cast<std::int64_t>(count)});
  CpuContext cpu(1);
  const auto bits = [](const float* data) { return reinterpret_cast<const std::uint32_t*>(data); };
  EXPECT_EQ(hash_ranges(gpu(), bits(there.data()), ranges),
            hash_ranges(cpu, bits(values.data()), ranges));
}

}  // namespace
}  // namespace tandem
