#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "parallel/colocated/shared_memory_communicator.h"
#include "parallel/mpi_test.h"
#include "train/ranks/data_parallel_run.h"

namespace tandem {
namespace {

/// Measured: 1.1e-7.
constexpr Bounds bounds{.right = 1e-6, .wrong = 1e-4};
constexpr Bounds synchronised_bounds{.right = 1e-6, .wrong = 1e-2};

void expect_reference(const SmallRun& run) {
  AnyContext context(CpuContext(1));
  expect_reference(run, {context, world(), world()}, bounds);
}

// Four ranks have four slices without accumulation; fewer ranks reach four by micro-batches.
int up_to_four() { return 4 / world().size(); }

TEST(DataParallel, WithoutMicroBatches) { expect_reference({}); }
TEST(DataParallel, TwoMicroBatches) { expect_reference({.accumulate = 2}); }
TEST(DataParallel, FourSlicesHoweverTheyAreMade) { expect_reference({.accumulate = up_to_four()}); }

// One process, too, has four slices where it carries four ranks.
TEST(DataParallel, FourFoldedRanks) { expect_reference({.folded = up_to_four()}); }
TEST(DataParallel, TwoFoldedRanksInEachProcess) { expect_reference({.folded = 2}); }
TEST(DataParallel, FoldedRanksOfMicroBatches) {
  expect_reference({.accumulate = 2, .folded = up_to_four()});
}
TEST(DataParallel, FoldedRanksThatMix) {
  expect_reference({.accumulate = 2, .folded = 2, .augment = "mixup = 0.4\ncutmix = 1.0\n"});
}

TEST(DataParallel, Mixup) { expect_reference({.accumulate = 2, .augment = "mixup = 0.4\n"}); }
TEST(DataParallel, Cutmix) { expect_reference({.accumulate = 2, .augment = "cutmix = 1.0\n"}); }
TEST(DataParallel, MixupOrCutmix) {
  expect_reference({.accumulate = up_to_four(), .augment = "mixup = 0.4\ncutmix = 1.0\n"});
}

// The same slices give the same losses and weights, whoever computes them: compared here with what
// one rank does for all of them.
TEST(DataParallel, EveryRankHasTheSameBitsInWeightsAndLosses) {
  AnyContext context(CpuContext(1));
  expect_same_on_all_ranks({}, {context, world(), world()});
  expect_same_on_all_ranks({.folded = 2}, {context, world(), world()});
}

TEST(DataParallel, StatisticsOverAllRanksAreThoseOfTheWholeBatch) {
  AnyContext context(CpuContext(1));
  const ReplicaPlace place{context, world(), world()};
  expect_synchronised({}, place, synchronised_bounds);
  expect_synchronised({.accumulate = 2}, place, synchronised_bounds);
  expect_synchronised({.folded = 2}, place, synchronised_bounds);
}

/// The ranks as if they lay on so many hosts, by turns.
RankTopology spread_over(int hosts) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < world().size(); ++rank) {
    const std::string host = "node-" + std::to_string(rank % hosts);
    places.push_back({.host = host, .host_id = host, .device = {}});
  }
  return {std::move(places), world().rank()};
}

TEST(DataParallel, ReducingOnTwoLevels) {
  AnyContext context(CpuContext(1));
  for (const int hosts : {1, 2}) {
    SCOPED_TRACE(hosts);
    SharedMemoryCommunicator reduction(world(), spread_over(hosts));
    const ReplicaPlace place{context, world(), reduction};
    expect_reference({.accumulate = 2}, place, bounds);
    expect_same_on_all_ranks({}, place);
    if (reduction.bf16_scratch(1) > 0) expect_compression_to_change_little(place, bounds.right);
  }
}

/// How many pieces of shared memory this process has mapped.
int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("/dev/shm/tandem-") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(DataParallel, OneStatePerHostChangesNoBit) {
  AnyContext context(CpuContext(1));
  for (const int hosts : {1, 2}) {
    SCOPED_TRACE(hosts);
    SharedMemoryCommunicator reduction(world(), spread_over(hosts));
    const ReplicaPlace place{context, world(), reduction};
    const SmallRun apart{.accumulate = 2};
    SmallRun shared = apart;
    shared.shared_state = true;
    const int before = shared_mappings();
    const Trajectory of_one_state = train_together(shared, place);
    const int after = shared_mappings();
    EXPECT_EQ(after > before, world().size() > hosts) << "nothing is shared";
    EXPECT_EQ(difference(of_one_state, train_together(apart, place)), 0.0);
    EXPECT_EQ(shared_mappings(), after);
    expect_same_on_all_ranks(shared, place);
  }
}

TEST(DataParallel, CompressedGradientsLeadNearlyTheSameWay) {
  AnyContext context(CpuContext(1));
  expect_compression_to_change_little({context, world(), world()}, bounds.right);
}

}  // namespace
}  // namespace tandem
