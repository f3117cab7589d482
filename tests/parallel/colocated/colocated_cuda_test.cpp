#include "parallel/colocated/colocated_cuda_test.h"

#include "base/philox.h"
#include "device/cuda_graph.h"
#include "parallel/colocated/colocated_cuda.h"
#include "parallel/silent_rank.h"
#include "parallel/sliced_arena.h"

// What ranks that share GPUs have alone: attached arenas, barriers on the device, giving up.

namespace tandem {
namespace {

TEST(ColocatedCuda, IsADeviceKind) {
  EXPECT_EQ(gpus().name(), topology().devices() == 1 ? "colocated" : "hierarchical");
  EXPECT_FALSE(gpus().is_host());
  EXPECT_EQ(gpus().rank(), hosts().rank());
  EXPECT_EQ(gpus().size(), hosts().size());
  // Of one memory of sums for each GPU.
  const auto ranks_each = static_cast<std::size_t>(gpus().size() / topology().devices());
  EXPECT_EQ(gpus().attached_bytes(1000), gpus().size() > 1 ? 4000 / ranks_each : 0);
}

TEST(ColocatedCuda, TheRanksOfAGpuShareTheirSums) {
  const OnGpu<float> arena(std::vector<float>(1000));
  const Tensor sums = gpus().attach(arena.tensor(DType::f32));
  EXPECT_EQ(sums.elements(), 1000);
  EXPECT_EQ(sums.raw() == arena.data(), gpus().size() == 1);
  gpus().detach(arena.tensor(DType::f32));
}

/// Whole numbers that differ by rank, element and round.
float value_of(int rank, std::int64_t i, int round) {
  return static_cast<float>((i * 7 + rank * 31 + round * 13) % 97);
}

float sum_of(std::int64_t i, int round) {
  float sum = 0.0F;
  for (int rank = 0; rank < gpus().size(); ++rank) sum += value_of(rank, i, round);
  return sum;
}

/// Slices of an arena that leave gaps, and begin and end anywhere. The longest is exchanged between
/// GPUs in two parts.
constexpr ArenaSlice slices[] = {{0, 1},
                                 {3, 2},
                                 {64, 64},
                                 {131, 0},
                                 {133, 6},
                                 {200, 1000},
                                 {1'201, 30'001},
                                 {40'000, 262'144},
                                 {302'147, 3},
                                 {302'151, 5},
                                 {302'160, 1'700'001}};
constexpr std::int64_t arena_elements = 2'002'200;

/// Sums lie apart from what they are made of, so that gaps stay zero.
constexpr ArenaRounds rounds{.slices = slices,
                             .elements = arena_elements,
                             .value = value_of,
                             .sum = sum_of,
                             .gap = [](std::int64_t, int) { return 0.0F; }};

/// Backward computes into the arena itself.
class Attached : public SlicedArena {
 public:
  Attached() : SlicedArena(rounds) {}

  void set(int round) { arena().set(rounds.values_of(gpus().rank(), arena_elements, round)); }
  /// Enqueues what backward computes.
  void compute(const float* values) const { enqueue_copy(values, arena_elements, arena().data()); }
  /// Enqueues the sums of all slices.
  void sum() const { sum_slices(); }
};

TEST(ColocatedCuda, SumsSlicesWithGapsWhoeverIsLate) {
  if (gpus().size() == 1) return;  // the arena is its own sum, gaps included
  Attached attached;
  RandomStream random(5, static_cast<std::uint64_t>(gpus().rank()));
  for (int round = 0; round < 5; ++round) {
    dawdle(random);
    attached.set(round);
    dawdle(random);
    attached.sum();
    rounds.expect_sums(attached.sums(), round);
    EXPECT_EQ(attached.arena().get(), rounds.values_of(gpus().rank(), arena_elements, round));
  }
}

TEST(ColocatedCuda, SumsInAGraphThatIsLaunchedAgainAndAgain) {
  if (gpus().size() == 1) return;
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
    statistics.set(rounds.values_of(gpus().rank(), 5, round));
    doubles.set(std::vector<double>(300, 1.0 + gpus().rank()));
    dawdle(random);
    graph.launch();
    if (round % 7 == 3) gpus().barrier();  // outside of the graph, an odd number of times
    rounds.expect_sums(attached.sums(), round);
    for (std::int64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(statistics.get()[static_cast<std::size_t>(i)], sum_of(i, round));
    }
    const int size = gpus().size();
    ASSERT_EQ(doubles.get(), std::vector<double>(300, 0.5 * size * (size + 1)));
  }
}

TEST(ColocatedCuda, LaunchesWithoutTheHostBetweenThem) {
  if (gpus().size() == 1) return;
  Attached attached;
  expect_sums_of_launches_in_a_row(rounds, attached);
}

TEST(ColocatedCuda, TakesNoSliceThatIsNotAttached) {
  if (gpus().size() == 1) return;
  const OnGpu<float> stranger(std::vector<float>(10));
  EXPECT_NE(message_of<Error>([&] {
              gpus().sum_attached_async(stranger.tensor(DType::f32));
            }).find("in no attached arena"),
            std::string::npos);
}

TEST(ColocatedCuda, EndsWhereARankNeverArrives) {
  if (gpus().size() == 1) return;
  const OnGpu<float> arena(rounds.values_of(gpus().rank(), 1234, 0));
  expect_silent_rank_is_named(
      [&](Communicator& group) {
        auto link = std::make_unique<ColocatedCudaCommunicator>(group, gpu(), topology(),
                                                                sharing_of_test(), links_of_test());
        (void)link->attach(arena.tensor(DType::f32));
        return link;
      },
      [&](Communicator& link, const char* label) {
        link.sum_attached_async(arena.tensor(DType::f32), label)->wait();
      },
      "(1,234 elements),");
}

TEST(ColocatedCuda, WorksOnAfterAnotherGroupWasGivenUp) {
  if (gpus().size() == 1) return;
  Attached attached;
  attached.set(2);
  attached.sum();
  rounds.expect_sums(attached.sums(), 2);
}

}  // namespace
}  // namespace tandem
