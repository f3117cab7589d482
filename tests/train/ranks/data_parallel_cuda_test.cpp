#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda_check.h"
#include "parallel/gather_text.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/slice_share.h"
#include "support/temporary_folder.h"
#include "train/gpu_place.h"
#include "train/ranks/data_parallel_run.h"
#include "train/step/replica.h"

// The key invariant on GPUs, one for each rank or shared by several: captured steps, raw input and
// what reduces gradients there, against the reference on the CPU.

namespace tandem {
namespace {

void expect_reference(const SmallRun& run, const Bounds& bounds) {
  GpuPlace gpu;
  expect_reference(run, gpu.place(), bounds);
}

constexpr Bounds fp32_bounds{.right = 1e-5, .wrong = 1e-4};
/// A weight of 8 bits of mantissa is off by up to 2^-9 = 2e-3, and so is each activation.
constexpr Bounds bf16_bounds{.right = 2e-2, .wrong = 2e-2};

int up_to_four() { return 4 / world().size(); }

TEST(DataParallelCuda, WithoutMicroBatches) { expect_reference({}, fp32_bounds); }
TEST(DataParallelCuda, TwoMicroBatches) { expect_reference({.accumulate = 2}, fp32_bounds); }
TEST(DataParallelCuda, FourSlicesHoweverTheyAreMade) {
  expect_reference({.accumulate = up_to_four()}, fp32_bounds);
}
TEST(DataParallelCuda, FourFoldedRanks) { expect_reference({.folded = up_to_four()}, fp32_bounds); }
TEST(DataParallelCuda, TwoFoldedRanksInEachProcess) {
  expect_reference({.folded = 2}, fp32_bounds);
}
TEST(DataParallelCuda, FoldedRanksThatMixMicroBatches) {
  expect_reference({.accumulate = 2, .folded = 2, .augment = "mixup = 0.4\ncutmix = 1.0\n"},
                   fp32_bounds);
}
TEST(DataParallelCuda, FoldedRanksInBf16) {
  expect_reference({.folded = up_to_four(), .precision = Precision::bf16}, bf16_bounds);
}
TEST(DataParallelCuda, MixupOrCutmix) {
  expect_reference({.accumulate = up_to_four(), .augment = "mixup = 0.4\ncutmix = 1.0\n"},
                   fp32_bounds);
}
TEST(DataParallelCuda, Bf16) {
  expect_reference({.accumulate = up_to_four(), .precision = Precision::bf16}, bf16_bounds);
}

/// What exchanges gradients, as `link` asks for it.
std::string name_of_link(const DeviceLinkOptions& link) {
  if (world().size() == 1) return "self";
  return link.exchange == ExchangeKind::direct ? "direct" : "nccl";
}

void expect_reference_over(const DeviceLinkOptions& link) {
  GpuPlace gpu(link);
  ASSERT_EQ(gpu.place().reduction.name(), name_of_link(link));
  for (const int accumulate : {1, 2}) {
    expect_reference({.accumulate = accumulate}, gpu.place(), fp32_bounds);
  }
  expect_reference({.folded = up_to_four(), .precision = Precision::bf16}, gpu.place(),
                   bf16_bounds);
  expect_same_on_all_ranks({.precision = Precision::bf16}, gpu.place());
}

TEST(DataParallelCuda, GradientsThatAreExchangedDirectly) {
  if (!has_gpu_of_its_own()) return;
  expect_reference_over({.exchange = ExchangeKind::direct});
}

TEST(DataParallelCuda, GradientsThatNcclExchanges) {
  if (has_gpu_of_its_own()) expect_reference_over({.exchange = ExchangeKind::nccl});
}

constexpr Bounds synchronised_bounds{.right = 1e-5, .wrong = 1e-2};

TEST(DataParallelCuda, StatisticsOverAllRanksAreThoseOfTheWholeBatch) {
  GpuPlace gpu;
  expect_synchronised({}, gpu.place(), synchronised_bounds);
  expect_synchronised({.accumulate = 2}, gpu.place(), synchronised_bounds);
  expect_synchronised({.folded = 2}, gpu.place(), synchronised_bounds);
}

TEST(DataParallelCuda, StatisticsOverAllRanksInBf16) {
  GpuPlace gpu;
  expect_synchronised({.precision = Precision::bf16}, gpu.place(), bf16_bounds);
}

TEST(DataParallelCuda, StatisticsOverAllRanksThatNcclExchanges) {
  if (!has_gpu_of_its_own()) return;
  GpuPlace gpu({.exchange = ExchangeKind::nccl});
  expect_synchronised({}, gpu.place(), synchronised_bounds);
  expect_synchronised({.precision = Precision::bf16}, gpu.place(), bf16_bounds);
}

/// Without MPS (tests/support/with_mps.sh), which is why there is one bucket then.
TEST(DataParallelCuda, EachSumIsSlowWhereRanksTakeTurns) {
  GpuPlace gpu;
  const bool under_mps = std::getenv("TANDEM_TEST_UNDER_MPS") != nullptr;
  const bool time_sliced = !has_gpu_of_its_own() && !under_mps;
  EXPECT_EQ(gpu.place().reduction.sum_cost() == SumCost::each_slow, time_sliced);
}

TEST(DataParallelCuda, EveryRankHasTheSameBitsInWeightsAndLosses) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    GpuPlace gpu;
    expect_same_on_all_ranks({.precision = precision}, gpu.place());
    expect_same_on_all_ranks({.folded = 2, .precision = precision}, gpu.place());
  }
}

/// For its life, each rank keeps its chosen kernels in a folder of its own, as on hosts of their
/// own.
class OwnCache {
 public:
  OwnCache() {
    if (const char* before = std::getenv(variable)) before_ = before;
    ::setenv(variable, folder_.path().c_str(), 1);
  }
  ~OwnCache() { before_ ? ::setenv(variable, before_->c_str(), 1) : ::unsetenv(variable); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* variable = "TANDEM_CACHE_DIR";
  TemporaryFolder folder_;
  std::optional<std::string> before_;
};

TEST(DataParallelCuda, AColdStartIsAWarmOneToTheBit) {
  if (std::getenv("TANDEM_TUNE") != nullptr) GTEST_SKIP() << "TANDEM_TUNE leaves less to choose";
  const OwnCache cache;
  std::optional<Trajectory> cold;
  std::string chosen;
  for (const bool warm : {false, true}) {
    GpuPlace gpu;
    const Trajectory run = train_together({.precision = Precision::bf16}, gpu.place());
    for (const std::string& other : all_gather_text(hosts(), gpu.choices().text())) {
      EXPECT_EQ(other, warm ? chosen : gpu.choices().text());
    }
    EXPECT_EQ(gpu.choices().made() > 0, !warm && hosts().rank() == 0);
    chosen = gpu.choices().text();
    EXPECT_NE(chosen, "");
    if (warm) {
      EXPECT_EQ(difference(run, *cold), 0.0);
    }
    cold = run;
  }
}

TEST(DataParallelCuda, OneStatePerGpuChangesNoBit) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    GpuPlace gpu;
    const SmallRun apart{.accumulate = 2, .precision = precision};
    SmallRun shared = apart;
    shared.shared_state = true;
    EXPECT_EQ(difference(train_together(shared, gpu.place()), train_together(apart, gpu.place())),
              0.0);
    expect_same_on_all_ranks(shared, gpu.place());
  }
}

struct RunCase {
  std::string name;
  SmallRun run;

  friend void PrintTo(const RunCase& each, std::ostream* out) { *out << each.name; }
};

std::string name_of_case(const testing::TestParamInfo<RunCase>& each) { return each.param.name; }

std::vector<RunCase> cases_of_updates_in_backward() {
  std::vector<RunCase> cases;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const double average_decay : {0.0, 0.5}) {
      const auto add = [&](std::string_view name, SmallRun run) {
        run.precision = precision;
        run.average_decay = average_decay;
        const std::string_view averaged = average_decay == 0.0 ? "" : "_averaged";
        cases.push_back(
            {fmt::format("{}_{}{}", name_of(precision), name, averaged), std::move(run)});
      };
      add("usual_buckets", {});
      add("buckets_of_64_bytes", {.bucket_bytes = 64});
      add("two_folded_ranks", {.folded = 2, .bucket_bytes = 8192});
    }
  }
  return cases;
}

class UpdatesInBackwardCuda : public testing::TestWithParam<RunCase> {};

TEST_P(UpdatesInBackwardCuda, ChangeNoBit) {
  if (world().size() > 1) return;
  SmallRun run = GetParam().run;
  GpuPlace gpu;
  run.before_check = [](Replica& replica) {
    EXPECT_EQ(replica.plan().gradient_memory(), GradientMemory::passing);
  };
  const Trajectory early = train_together(run, gpu.place());
  run.update_in_backward = false;
  run.before_check = [](Replica& replica) {
    EXPECT_EQ(replica.plan().gradient_memory(), GradientMemory::lent);
  };
  const Trajectory late = train_together(run, gpu.place());
  EXPECT_EQ(early.losses, late.losses);
  EXPECT_EQ(early.weights, late.weights);
  EXPECT_EQ(early.momentum, late.momentum);
  EXPECT_EQ(early.average, late.average);
  EXPECT_EQ(early.average.empty(), run.average_decay == 0.0);
}

INSTANTIATE_TEST_SUITE_P(Runs, UpdatesInBackwardCuda,
                         testing::ValuesIn(cases_of_updates_in_backward()), name_of_case);

/// Ranks with a GPU each, which update in shares.
bool can_share_updates() { return world().size() > 1 && has_gpu_of_its_own(); }

std::vector<RunCase> cases_of_updates_in_shares() {
  std::vector<RunCase> cases;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto add = [&](const std::string& name, SmallRun run) {
      run.precision = precision;
      cases.push_back({fmt::format("{}_{}", name_of(precision), name), std::move(run)});
    };
    add("usual_buckets", {});
    add("buckets_of_64_bytes", {.bucket_bytes = 64});
    add("buckets_of_8_kib", {.bucket_bytes = 8192});
    add("two_micro_batches", {.accumulate = 2, .bucket_bytes = 8192});
    add("two_folded_ranks", {.folded = 2, .bucket_bytes = 8192});
  }
  return cases;
}

class UpdatesInSharesCuda : public testing::TestWithParam<RunCase> {};

TEST_P(UpdatesInSharesCuda, ChangeNoBit) {
  if (!can_share_updates()) return;
  SmallRun run = GetParam().run;
  GpuPlace gpu({.exchange = ExchangeKind::direct});
  ASSERT_NE(gpu.place().reduction.peer_devices(), nullptr);
  const Trajectory sharded = train_together(run, gpu.place());
  expect_same_on_all_ranks(run, gpu.place());
  run.sharded_update = false;
  const Trajectory whole = train_together(run, gpu.place());
  EXPECT_EQ(sharded.losses, whole.losses);
  EXPECT_EQ(sharded.weights, whole.weights);
  EXPECT_EQ(sharded.momentum, whole.momentum);
}

INSTANTIATE_TEST_SUITE_P(Runs, UpdatesInSharesCuda, testing::ValuesIn(cases_of_updates_in_shares()),
                         name_of_case);

/// Writes `byte` all over this rank's copy of an element that `owner` updates, in the largest
/// bucket.
void overwrite(const Tensor& arena, const Replica& replica, int owner, std::uint8_t byte) {
  const Bucket bucket =
      *std::ranges::max_element(replica.bucketer().buckets(), {}, &Bucket::elements);
  const ArenaRange share =
      share_of({bucket.offset, bucket.offset + bucket.elements}, world().size(), owner);
  auto* first = static_cast<std::byte*>(arena.raw()) +
                static_cast<std::size_t>(share.begin) * size_of(arena.dtype());
  TANDEM_CUDA_CHECK(cudaMemset(first, byte, size_of(arena.dtype())));
  TANDEM_CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(DataParallelCuda, AWeightThatDidNotArriveIsFound) {
  if (!can_share_updates()) return;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    GpuPlace gpu({.exchange = ExchangeKind::direct});
    const auto lose = [](Replica& replica) {
      if (hosts().rank() == 1) overwrite(replica.store().trained_weights(), replica, 0, 0x11);
    };
    try {
      train_together({.precision = precision, .bucket_bytes = 8192, .before_check = lose},
                     gpu.place());
      FAIL() << "nobody found it";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("differ"), std::string::npos) << error.what();
    }
  }
}

TEST(DataParallelCuda, WeightsThatAreNotFiniteAreNamedAlikeOnAllRanks) {
  if (!can_share_updates()) return;
  GpuPlace gpu({.exchange = ExchangeKind::direct});
  std::string found;
  const auto ask = [&](Replica& replica) {
    if (hosts().rank() == 1) overwrite(replica.store().trained_values(), replica, 1, 0xff);
    found = replica.non_finite_weights(12);
  };
  (void)train_together({.precision = Precision::bf16, .bucket_bytes = 8192, .before_check = ask},
                       gpu.place());
  EXPECT_NE(found.find("the update of step 12 made '"), std::string::npos) << found;
  for (const std::string& other : all_gather_text(hosts(), found)) EXPECT_EQ(other, found);
}

TEST(DataParallelCuda, NcclIsTakenWhereItIsToldToMakeNoCopies) {
  if (!has_gpu_of_its_own()) return;
  const char* told = std::getenv("NCCL_P2P_DISABLE");
  if (told == nullptr || std::string(told) != "1") return;  // NCCL reads it once: the .network run
  GpuPlace gpu;
  EXPECT_EQ(gpu.place().reduction.name(), name_of_link({.exchange = ExchangeKind::nccl}));
}

// Captured steps hear of it while they wait (tests/parallel/nccl_test.cpp has the bucket too).
TEST(DataParallelCuda, AnErrorOfNcclEndsTheWaitForAStep) {
  if (world().size() == 1 || !has_gpu_of_its_own() || !nccl_uses_sockets()) return;
  GpuPlace gpu({.exchange = ExchangeKind::nccl});
  auto& nccl = dynamic_cast<NcclCommunicator&>(gpu.place().reduction);
  const bool ends = hosts().rank() == 1;
  const auto end_nccl = [&](int step) {
    if (step < 6 || !ends) return;
    nccl.give_up();
    throw SystemError("this rank ends");
  };
  const std::string message = message_of<SystemError>(
      [&] { (void)train_together({.before_step = end_nccl}, gpu.place()); });
  if (ends) {
    EXPECT_EQ(message, "this rank ends");
  } else {
    EXPECT_EQ(message.rfind("NCCL failed: ", 0), 0U) << message;
    EXPECT_NE(message.find(" in the step's end, last in all_reduce of "), std::string::npos)
        << message;
  }
  hosts().barrier();
}

TEST(DataParallelCuda, CompressedGradientsLeadNearlyTheSameWay) {
  if (world().size() > 1 && devices_of_ranks().size() == 1)
    return;  // nothing is rounded on one GPU
  GpuPlace gpu;
  expect_compression_to_change_little(gpu.place(), 1e-6);
}

}  // namespace
}  // namespace tandem
