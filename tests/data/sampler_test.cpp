#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/distributed_sampler.h"
#include "data/evaluation_sampler.h"
#include "data/support.h"

namespace tandem::testing {
namespace {

using Indices = std::vector<std::int64_t>;

/// The samples of every step in the order of (micro-batch, rank).
std::vector<Indices> steps_of(DistributedSampler::Options options, std::int64_t epoch) {
  std::vector<DistributedSampler> ranks;
  for (int rank = 0; rank < options.world; ++rank) {
    options.rank = rank;
    ranks.emplace_back(options);
  }
  std::vector<Indices> steps;
  for (std::int64_t step = 0; step < ranks[0].steps_per_epoch(); ++step) {
    Indices all;
    for (int micro = 0; micro < options.accumulate; ++micro) {
      for (DistributedSampler& sampler : ranks) {
        const Indices part = sampler.indices(epoch, step, micro);
        EXPECT_EQ(static_cast<std::int64_t>(part.size()), sampler.micro_batch());
        all.insert(all.end(), part.begin(), part.end());
      }
    }
    steps.push_back(all);
  }
  return steps;
}

/// So many samples that a thread makes each epoch's permutation ahead.
TEST(DistributedSampler, EpochsAreTheSameInWhateverOrderTheyAreAskedFor) {
  const DistributedSampler::Options options{.size = 150'000, .global_batch = 50'000, .seed = 5};
  const auto epoch_of = [](DistributedSampler& sampler, std::int64_t epoch) {
    Indices all;
    for (std::int64_t step = 0; step < 3; ++step) {
      const Indices part = sampler.indices(epoch, step, 0);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  DistributedSampler sampler(options);
  std::set<Indices> seen;
  for (const std::int64_t epoch : {0, 1, 2, 1, 2, 7, 9, 8}) {
    DistributedSampler fresh(options);
    const Indices found = epoch_of(sampler, epoch);
    EXPECT_EQ(found, epoch_of(fresh, epoch)) << epoch;
    DistributedSampler copy = sampler;
    EXPECT_EQ(epoch_of(copy, epoch + 1), epoch_of(fresh, epoch + 1)) << epoch;
    seen.insert(found);
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST(DistributedSampler, StepsDoNotDependOnTheRankCount) {
  for (const std::int64_t size : {24, 25, 47, 240, 1001}) {
    for (const std::int64_t batch : {1, 12, 24}) {
      const auto reference = steps_of({.size = size, .global_batch = batch, .seed = 5}, 3);
      ASSERT_EQ(static_cast<std::int64_t>(reference.size()), size / batch);
      std::map<std::int64_t, int> seen;
      for (const Indices& step : reference) {
        for (const std::int64_t index : step) ++seen[index];
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), size / batch * batch);
      for (const auto& [index, times] : seen) {
        ASSERT_TRUE(index >= 0 && index < size);
        ASSERT_EQ(times, 1);
      }
      for (const int world : {1, 2, 3, 4}) {
        for (const int accumulate : {1, 2, 3}) {
          if (batch % (world * accumulate) != 0) continue;
          const DistributedSampler::Options options{.size = size,
                                                    .global_batch = batch,
                                                    .world = world,
                                                    .accumulate = accumulate,
                                                    .seed = 5};
          EXPECT_EQ(steps_of(options, 3), reference) << size << " " << batch << " " << world;
          EXPECT_EQ(DistributedSampler(options).dropped(), size % batch);
        }
      }
    }
  }
}

TEST(DistributedSampler, PredecessorsLieBeforeInTheGlobalBatch) {
  const DistributedSampler::Options whole{.size = 50, .global_batch = 12, .seed = 5};
  for (const auto& [world, accumulate] : {std::pair{1, 1}, {3, 1}, {1, 4}, {2, 3}, {12, 1}}) {
    for (std::int64_t step = 0; step < 4; ++step) {
      const Indices all = steps_of(whole, 2)[static_cast<std::size_t>(step)];
      std::size_t at = 0;
      for (int micro = 0; micro < accumulate; ++micro) {
        for (int rank = 0; rank < world; ++rank) {
          DistributedSampler sampler({.size = 50,
                                      .global_batch = 12,
                                      .world = world,
                                      .rank = rank,
                                      .accumulate = accumulate,
                                      .seed = 5});
          EXPECT_EQ(sampler.predecessor(2, step, micro), all[(at + 11) % 12]);
          at += static_cast<std::size_t>(sampler.micro_batch());
        }
      }
    }
  }
}

TEST(DistributedSampler, ProcessesThatCarryRanksHaveThoseRanksSamples) {
  const DistributedSampler::Options whole{.size = 100, .global_batch = 24, .accumulate = 2};
  for (const auto& [processes, folded] : {std::pair{1, 4}, {2, 2}, {3, 4}, {4, 1}}) {
    for (int micro = 0; micro < whole.accumulate; ++micro) {
      for (int process = 0; process < processes; ++process) {
        DistributedSampler::Options options = whole;
        options.world = processes;
        options.rank = process;
        options.folded = folded;
        Indices of_ranks;
        for (int rank = process * folded; rank < (process + 1) * folded; ++rank) {
          DistributedSampler::Options one = whole;
          one.world = processes * folded;
          one.rank = rank;
          const Indices own = DistributedSampler(one).indices(1, 2, micro);
          of_ranks.insert(of_ranks.end(), own.begin(), own.end());
        }
        EXPECT_EQ(DistributedSampler(options).indices(1, 2, micro), of_ranks);
      }
    }
  }
}

TEST(DistributedSampler, EpochsAndSeedsDiffer) {
  const DistributedSampler::Options options{.size = 100, .global_batch = 10, .seed = 5};
  DistributedSampler::Options other = options;
  other.seed = 6;
  EXPECT_NE(steps_of(options, 0), steps_of(options, 1));
  EXPECT_NE(steps_of(options, 0), steps_of(other, 0));
  DistributedSampler sampler(options);
  const Indices first = sampler.indices(0, 0, 0);
  static_cast<void>(sampler.indices(1, 0, 0));
  EXPECT_EQ(sampler.indices(0, 0, 0), first);
}

TEST(DistributedSampler, ShufflesUniformly) {
  // How often each sample comes first in 6000 epochs of six: 1000 times, standard deviation 29.
  DistributedSampler sampler({.size = 6, .global_batch = 1, .seed = 1});
  std::array<int, 6> first{};
  for (std::int64_t epoch = 0; epoch < 6000; ++epoch) {
    ++first.at(static_cast<std::size_t>(sampler.indices(epoch, 0, 0)[0]));
  }
  for (const int times : first) EXPECT_NEAR(times, 1000, 150);
}

TEST(DistributedSampler, KeepsTheOrderWithoutShuffle) {
  DistributedSampler sampler(
      {.size = 10, .global_batch = 4, .world = 2, .rank = 1, .shuffle = false});
  EXPECT_EQ(sampler.indices(7, 1, 0), (Indices{6, 7}));
}

TEST(DistributedSampler, RefusesWhatDoesNotDivide) {
  expect_input_error([] { DistributedSampler({.size = 100, .global_batch = 10, .world = 3}); },
                     {"10", "3 ranks", "for instance 12"});
  expect_input_error(
      [] { DistributedSampler({.size = 100, .global_batch = 6, .world = 2, .accumulate = 2}); },
      {"2 ranks x 2 micro-batches = 4", "8"});
  expect_input_error(
      [] { DistributedSampler({.size = 100, .global_batch = 6, .world = 2, .folded = 4}); },
      {"8 ranks (4 a process); take a multiple of 8", "for instance 8"});
  expect_input_error([] { DistributedSampler({.size = 63, .global_batch = 64}); },
                     {"63 samples", "64", "smaller batch"});
}

TEST(EvaluationSampler, GivesEverySampleOnce) {
  for (const std::int64_t size : {0, 1, 7, 64, 100}) {
    for (const std::int64_t batch : {1, 8, 100}) {
      for (const int world : {1, 2, 3, 5}) {
        Indices all;
        std::int64_t batches = -1;
        for (int rank = 0; rank < world; ++rank) {
          const EvaluationSampler sampler(
              {.size = size, .batch = batch, .world = world, .rank = rank});
          if (rank == 0) batches = sampler.batches();
          EXPECT_EQ(sampler.batches(), batches);
          for (std::int64_t k = 0; k < batches; ++k) {
            const Indices part = sampler.indices(k);
            EXPECT_LE(static_cast<std::int64_t>(part.size()), batch);
            all.insert(all.end(), part.begin(), part.end());
          }
        }
        std::sort(all.begin(), all.end());
        Indices wanted(static_cast<std::size_t>(size));
        std::iota(wanted.begin(), wanted.end(), std::int64_t{0});
        EXPECT_EQ(all, wanted);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
