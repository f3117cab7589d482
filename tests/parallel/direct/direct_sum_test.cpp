#include "parallel/direct/direct_sum.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "parallel/mapped/ipc_memory.h"

// The kernel alone, with one GPU's memory in the place of several GPUs'.

namespace tandem {
namespace {

constexpr std::int64_t elements = 70'000;

TEST(PeerMemory, ThatCannotBeOpenedLeavesNoErrorToTheNextKernel) {
  const CudaContext gpu(0);
  EXPECT_THROW(PeerMemory(IpcAddress{}), SystemError);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class DirectSumTest : public testing::TestWithParam<int> {
 protected:
  DirectSumTest() {
    for (int g = 0; g < GetParam(); ++g) {
      arenas_.push_back(static_cast<float*>(gpu_.allocate(elements * sizeof(float))));
    }
  }
  ~DirectSumTest() override {
    for (float* arena : arenas_) gpu_.deallocate(arena);
  }

  /// Their sum depends on its order.
  static float value(int gpu, std::int64_t i) {
    return (1.0F + static_cast<float>((i * 7 + gpu * 31) % 97) / 97.0F) *
           static_cast<float>(1 << ((i + gpu * 5) % 23));
  }
  void fill() {
    std::vector<float> values(elements);
    for (int g = 0; g < GetParam(); ++g) {
      for (std::int64_t i = 0; i < elements; ++i) {
        values[static_cast<std::size_t>(i)] = value(g, i);
      }
      copy_to_device(gpu_, values.data(), elements * sizeof(float),
                     arenas_[static_cast<std::size_t>(g)]);
    }
  }
  /// The sums within the share, of all GPUs or only one, and elsewhere what was there.
  void expect_summed(const ArenaRange& share, int only = -1) {
    std::vector<float> found(elements);
    for (int g = 0; g < GetParam(); ++g) {
      copy_to_host(gpu_, arenas_[static_cast<std::size_t>(g)], elements * sizeof(float),
                   found.data());
      for (std::int64_t i = 0; i < elements; ++i) {
        float expected = value(g, i);
        if (i >= share.begin && i < share.end && (only < 0 || g == only)) {
          expected = value(0, i);
          for (int other = 1; other < GetParam(); ++other) expected += value(other, i);
        }
        ASSERT_EQ(found[static_cast<std::size_t>(i)], expected) << "GPU " << g << ", element " << i;
      }
    }
  }

  CudaContext gpu_{0};
  std::vector<float*> arenas_;
};

TEST_P(DirectSumTest, SumsItsShareInTheOrderOfTheGpus) {
  for (const ArenaRange& share : {ArenaRange{8, 8}, ArenaRange{1, 2}, ArenaRange{1, 4},
                                  ArenaRange{3, 10}, ArenaRange{32, 4096}, ArenaRange{33, 4095},
                                  ArenaRange{5, elements - 3}, ArenaRange{0, elements}}) {
    for (const int ranks : {1, 4, 16}) {
      SCOPED_TRACE(testing::Message() << share.begin << " to " << share.end << ", " << ranks);
      fill();
      sum_directly(gpu_.stream(), arenas_, share, ranks);
      ASSERT_NO_FATAL_FAILURE(expect_summed(share));
    }
  }
}

TEST_P(DirectSumTest, GivesTheSumsToOneGpuAlone) {
  for (const ArenaRange& share : {ArenaRange{8, 8}, ArenaRange{3, 10}, ArenaRange{33, 4095}}) {
    for (const int only : {0, GetParam() - 1}) {
      SCOPED_TRACE(testing::Message() << share.begin << " to " << share.end << ", GPU " << only);
      fill();
      sum_directly(gpu_.stream(), arenas_, share, 1, only);
      ASSERT_NO_FATAL_FAILURE(expect_summed(share, only));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, DirectSumTest, testing::Values(2, 3, 4, 5, 8, 9));

}  // namespace
}  // namespace tandem
