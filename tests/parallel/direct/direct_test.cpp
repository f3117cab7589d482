#include <cuda_runtime_api.h>

#include <cmath>

#include "base/philox.h"
#include "device/cuda_check.h"
#include "device/cuda_graph.h"
#include "parallel/direct/direct_communicator.h"
#include "parallel/silent_rank.h"
#include "parallel/sliced_arena.h"

// What ranks have alone that exchange directly: attached arenas, giving up.

namespace tandem {
namespace {

TEST(Direct, IsADeviceKind) {
  EXPECT_EQ(gpus().name(), "direct");
  EXPECT_FALSE(gpus().is_host());
  EXPECT_EQ(gpus().rank(), hosts().rank());
  EXPECT_EQ(gpus().size(), hosts().size());
  EXPECT_EQ(gpus().attached_bytes(1000), 0U);
}

/// Values that differ by rank, element and round, and whose sum depends on its order.
float value_of(int rank, std::int64_t i, int round) {
  const auto step = static_cast<float>((i * 7 + rank * 31 + round * 13) % 97);
  return std::ldexp(1.0F + step / 97.0F, static_cast<int>((i + rank * 5 + round) % 23) - 11);
}

/// Added up in the order of the ranks.
float sum_of(std::int64_t i, int round) {
  float sum = value_of(0, i, round);
  for (int rank = 1; rank < gpus().size(); ++rank) sum += value_of(rank, i, round);
  return sum;
}

/// Slices of an arena that leave gaps, and begin and end anywhere. Of the longest one a
/// kernel's blocks take several tiles each.
constexpr ArenaSlice slices[] = {{0, 1},
                                 {3, 2},
                                 {64, 64},
                                 {131, 0},
                                 {133, 6},
                                 {200, 5'001},
                                 {10'000, 30'001},
                                 {40'001, 262'144},
                                 {302'148, 1'500'001},
                                 {1'802'149, 300'003},
                                 {2'102'160, 262'145}};
constexpr std::int64_t arena_elements = 2'364'400;

/// Sums take the place of what they are made of, so that a gap keeps what this rank has there.
constexpr ArenaRounds rounds{
    .slices = slices,
    .elements = arena_elements,
    .value = value_of,
    .sum = sum_of,
    .gap = [](std::int64_t i, int round) { return value_of(gpus().rank(), i, round); }};

/// An arena, and what backward writes into it.
class Attached : public SlicedArena {
 public:
  Attached()
      : SlicedArena(rounds),
        computed_(std::vector<float>(static_cast<std::size_t>(arena_elements))) {
    EXPECT_EQ(sums_at(), arena().data());
  }

  void set(int round) { computed_.set(rounds.values_of(gpus().rank(), arena_elements, round)); }
  /// Enqueues what backward computes from now on.
  void compute(const float* values) const {
    enqueue_copy(values, arena_elements, computed_.data());
  }
  /// Enqueues backward, and the sums of all slices.
  void sum() const {
    enqueue_copy(computed_.data(), arena_elements, arena().data());
    sum_slices();
  }

 private:
  OnGpu<float> computed_;
};

TEST(Direct, SumsSlicesInTheOrderOfTheRanksWhoeverIsLate) {
  Attached attached;
  RandomStream random(5, static_cast<std::uint64_t>(gpus().rank()));
  for (int round = 0; round < 5; ++round) {
    dawdle(random);
    attached.set(round);
    dawdle(random);
    attached.sum();
    rounds.expect_sums(attached.sums(), round);
  }
}

TEST(Direct, SumsInAGraphThatIsLaunchedAgainAndAgain) {
  Attached attached;
  OnGpu<float> statistics(std::vector<float>(5));
  OnGpu<double> doubles(std::vector<double>(300));
  const auto step = [&] {
    const auto request = gpus().all_reduce_async(statistics.tensor(DType::f32), ReduceOp::sum);
    // On the context's stream, while the other goes on.
    gpus().sum_doubles(doubles.data(), 300);
    attached.sum();
    gpus().barrier();
    request->wait();
  };
  step();
  CudaGraph graph(gpu(), step);
  RandomStream random(6, static_cast<std::uint64_t>(gpus().rank()));
  for (int round = 0; round < 20; ++round) {
    dawdle(random);
    attached.set(round);
    statistics.set(contributions<float>(gpus().rank(), 5));
    doubles.set(std::vector<double>(300, 1.0 + gpus().rank()));
    dawdle(random);
    graph.launch();
    if (round % 7 == 3) gpus().barrier();  // outside of the graph
    rounds.expect_sums(attached.sums(), round);
    EXPECT_EQ(statistics.get(), sums<float>(5));
    const int size = gpus().size();
    EXPECT_EQ(doubles.get(), std::vector<double>(300, 0.5 * size * (size + 1)));
  }
}

TEST(Direct, LaunchesWithoutTheHostBetweenThem) {
  Attached attached;
  expect_sums_of_launches_in_a_row(rounds, attached);
}

TEST(Direct, TakesNoSliceThatIsNotAttached) {
  const OnGpu<float> stranger(std::vector<float>(10));
  EXPECT_NE(message_of<Error>([&] {
              gpus().sum_attached_async(stranger.tensor(DType::f32));
            }).find("in no attached arena"),
            std::string::npos);
}

TEST(Direct, EndsWhereARankNeverArrives) {
  const OnGpu<float> arena(rounds.values_of(gpus().rank(), 4321, 0));
  expect_silent_rank_is_named(
      [&](Communicator& group) {
        auto link = std::make_unique<DirectCommunicator>(group, gpu());
        (void)link->attach(arena.tensor(DType::f32));
        return link;
      },
      [&](Communicator& link, const char* label) {
        link.sum_attached_async(arena.tensor(DType::f32), label)->wait();
      },
      "(4,321 elements)");
}

TEST(Direct, WorksOnAfterAnotherGroupWasGivenUp) {
  Attached attached;
  attached.set(2);
  attached.sum();
  rounds.expect_sums(attached.sums(), 2);
}

}  // namespace
}  // namespace tandem
