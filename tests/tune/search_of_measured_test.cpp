#include <gtest/gtest.h>

#include <algorithm>

#include "tune/made_up.h"
#include "tune/search.h"

// What the search makes of machines whose candidates run as fast as some were measured to run.

namespace tandem {
namespace {

Measurement measurement_of(double training, double one_batch) {
  return {.rates = Rates{.training = training, .one_batch = one_batch, .loader = training},
          .device = "H200",
          .on_gpus = true};
}

/// What a search and the sweep behind it measured on an H200: ResNet-18, 32 px, global batch 512,
/// bf16.
struct Swept {
  Candidate candidate;
  double training;
  double one_batch;
};
const std::vector<Swept> swept{
    {{.workers = 4}, 151204, 489662},     {{.workers = 8}, 283358, 495943},
    {{.workers = 16}, 425151, 492078},    {{.workers = 32}, 426807, 493202},
    {folded(2, 4), 125934, 515055},       {folded(2, 8), 243853, 516512},
    {folded(2, 16), 469381, 512949},      {folded(4, 4), 182663, 523131},
    {folded(4, 8), 317401, 525465},       {folded(4, 16), 522920, 520746},
    {folded(8, 4), 164663, 498527},       {processes(2, 0, 4), 269159, 402858},
    {processes(2, 0, 8), 345451, 401707}, {processes(2, 0, 16), 354022, 403926},
    {processes(4, 0, 4), 318702, 320188}, {processes(4, 0, 8), 319999, 320417},
    {processes(8, 0, 4), 234004, 234605}};

TEST(SearchOfMeasured, FindsTheBestOfWhatWasSweptInAMinute) {
  double now = 0.0;
  const auto measure = [&](const Candidate& candidate, double) {
    now += 4.0;
    const auto found = std::ranges::find(swept, candidate, &Swept::candidate);
    if (found == swept.end()) return Measurement{.problem = "not in the sweep"};
    return measurement_of(found->training, found->one_batch);
  };
  const SearchLimits limits{.global_batch = 512, .workers = 4, .cores = 64, .seconds = 70.0};
  const TuneResult result = search_placement(limits, measure, [&] { return now; });
  EXPECT_EQ(choice_of(result), folded(4, 16));
  EXPECT_LE(now, limits.seconds);
}

/// ShuffleNetV2 on an H200, rates of a sweep: benchmarks/results/2026-11-27-nvidia-h200-x4-3. Where
/// the search before it had better or more runs, those. `seconds` of a first run, which chooses
/// kernels.
struct Timed {
  Candidate candidate;
  double training;
  double one_batch;
  double seconds;
};
const Timed timed[] = {
    {{.workers = 8}, 270891, 372379, 26.0},   {{.workers = 16}, 362218, 372399, 5.0},
    {folded(2, 8), 268205, 382398, 6.0},      {folded(2, 16), 368523, 382296, 11.0},
    {folded(4, 8), 321164, 397621, 6.0},      {folded(4, 16), 393588, 397052, 9.0},
    {folded(8, 8), 307587, 400017, 9.0},      {folded(8, 16), 398910, 399293, 10.0},
    {processes(2, 0, 8), 311945, 318961, 29}, {processes(4, 0, 8), 259505, 279951, 24.0},
    {processes(8, 0, 8), 233309, 233244, 31}};

TEST(SearchOfMeasured, FoldedRanksAreNotLeftOutForTheTimeOfProcesses) {
  double now = 0.0;
  std::vector<Placement> placed;
  const auto measure = [&](const Candidate& candidate, double seconds) {
    const auto found = std::ranges::find(timed, candidate, &Timed::candidate);
    if (found == std::end(timed)) return Measurement{.problem = "not in the sweep"};
    const bool first = std::ranges::find(placed, candidate.placement) == placed.end();
    const double takes = first ? found->seconds : 5.5;
    now += std::min(takes, seconds);
    if (takes > seconds) return Measurement{.problem = "too long", .timed_out = true};
    placed.push_back(candidate.placement);
    Measurement measured = measurement_of(found->training, found->one_batch);
    measured.plan_seconds = first ? found->seconds - 4.0 : 1.5;
    return measured;
  };
  const SearchLimits limits{.global_batch = 512, .workers = 8, .cores = 16, .seconds = 120.0};
  const TuneResult result = search_placement(limits, measure, [&] { return now; });
  EXPECT_EQ(choice_of(result), folded(8, 16));
  EXPECT_LE(now, limits.seconds);
}

/// What a step of 512 images took on an H200 at 32 px in bf16, one rank's, 4 folded ranks' and 4
/// processes' under MPS: benchmarks/results/2026-11-22-nvidia-h200/accdp/figure_2.json. Of other
/// numbers of ranks it has nothing.
struct OneIsBest {
  const char* model;
  double one;
  double folded;
  double processes;
};
constexpr OneIsBest one_is_best[] = {{"mobilenet_v2", 327012, 319181, 227803},
                                     {"shufflenet_v2_x1_0", 379706, 374956, 274940}};

TEST(SearchOfMeasured, AnswersOneWhereThatWasMeasuredToBeBest) {
  for (const OneIsBest& measured : one_is_best) {
    MadeUpMachine machine;
    machine.problem = [](const Candidate& candidate) {
      const int ranks = candidate.placement.ranks_per_device;
      return ranks == 1 || ranks == 4 ? "" : "not measured";
    };
    machine.one_batch = [&](const Candidate& candidate) {
      if (candidate.placement.ranks_per_device == 1) return measured.one;
      return processes_of(candidate.placement) == 1 ? measured.folded : measured.processes;
    };
    const TuneResult result = machine.search(ample_limits);
    EXPECT_EQ(choice_of(result), Candidate{}) << measured.model;
    EXPECT_EQ(result.rows.at(result.best_other.value()).candidate, folded(4)) << measured.model;
    EXPECT_NEAR(result.gain(), measured.folded / measured.one - 1.0, 1e-9) << measured.model;
  }
}

}  // namespace
}  // namespace tandem
