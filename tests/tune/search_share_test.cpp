#include <gtest/gtest.h>

#include <algorithm>

#include "tune/made_up.h"
#include "tune/search.h"

// The SM shares that are measured behind the finals where processes were out of reach.

namespace tandem {
namespace {

/// All processes are out of reach of one rank but those with an SM share.
double ahead_with_share(const Candidate& candidate) {
  if (candidate.placement.sm_percent > 0) return 1500.0;
  return processes_of(candidate.placement) > 1 ? 500.0 : 1000.0;
}

bool is_left_out(const TuneResult& result, const std::string& why) {
  return std::ranges::any_of(result.left_out, [&](const std::string& line) {
    return line.find(why) != std::string::npos;
  });
}

TEST(SearchShare, OfProcessesThatAreOutOfReachMayWin) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    if (candidate.placement == processes(4, 25).placement) return 1200.0;
    if (candidate.placement == processes(4).placement) return 410.0;  // the best number of them
    return processes_of(candidate.placement) > 1 ? 400.0 : 1000.0;
  };
  machine.loader = [](int threads) { return 125.0 * threads; };
  const TuneResult result = machine.search(ample_limits);
  // With as many threads as one rank has, the share trains no faster: one batch alone shows it.
  EXPECT_EQ(choice_of(result), processes(4, 25, 4)) << text_of(choice_of(result));
  EXPECT_NEAR(result.gain(), 0.2, 1e-9) << "fed as well as one rank";
  EXPECT_GE(row_of(result, choice_of(result)).final_runs.size(), 1U);
  EXPECT_GT(row_of(result, {.workers = 8}).final_runs.size(),
            row_of(result, choice_of(result)).final_runs.size());
  EXPECT_LE(machine.now, ample_limits.seconds);
}

TEST(SearchShare, OfEachSizeIsTriedAndMayWin) {
  for (const int fastest : {25, 38, 50}) {
    MadeUpMachine machine;
    machine.one_batch = [=](const Candidate& candidate) {
      if (candidate.placement == processes(4, fastest).placement) return 1200.0;
      if (candidate.placement == processes(4).placement) return 410.0;
      return processes_of(candidate.placement) > 1 ? 400.0 : 1000.0;
    };
    SearchLimits limits = ample_limits;
    limits.seconds = 240.0;
    const TuneResult result = machine.search(limits);
    EXPECT_EQ(choice_of(result), processes(4, fastest)) << text_of(choice_of(result));
    for (const int percent : {25, 38, 50}) EXPECT_TRUE(has_run(machine, processes(4, percent)));
  }
}

// Within the usual two minutes.
TEST(SearchShare, OfSeveralThatAreAheadTheBestWins) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    if (candidate.placement.sm_percent > 0) return 1000.0 + 8.0 * candidate.placement.sm_percent;
    if (processes_of(candidate.placement) == 4) return 410.0;
    return processes_of(candidate.placement) > 1 ? 400.0 : 1000.0;
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), processes(4, 50)) << text_of(choice_of(result));
  EXPECT_GE(row_of(result, processes(4, 50)).final_runs.size(), 2U);
  EXPECT_TRUE(row_of(result, processes(4, 38)).final_runs.empty()) << "behind the one in turns";
  EXPECT_LE(machine.now, ample_limits.seconds);
}

// Which takes as long as the first one, since nothing is kept of what it chooses.
TEST(SearchShare, KeepsTheTimeOfItsRoundWhereItBorrowsKernels) {
  for (double seconds = 90.0; seconds < 160.0; seconds += 2.0) {
    MadeUpMachine machine;
    machine.borrowing_seconds = 5.0;
    machine.one_batch = [](const Candidate& candidate) {
      if (candidate.placement == processes(2, 50).placement) return 1300.0;
      if (candidate.placement == processes(2, 75).placement) return 1100.0;
      return processes_of(candidate.placement) > 1 ? 500.0 : 1000.0;
    };
    SearchLimits limits = ample_limits;
    limits.seconds = seconds;
    const TuneResult result = machine.search(limits);
    const bool tried_the_other = has_run(machine, processes(2, 75));
    EXPECT_TRUE(!tried_the_other || choice_of(result) == processes(2, 50)) << seconds;
    EXPECT_LE(machine.now, seconds);
  }
}

TEST(SearchShare, ThatBreaksLeavesTheTimeToAnother) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    if (candidate.placement.sm_percent > 0) return 1000.0 + 8.0 * candidate.placement.sm_percent;
    if (processes_of(candidate.placement) == 4) return 410.0;
    return processes_of(candidate.placement) > 1 ? 400.0 : 1000.0;
  };
  machine.problem = [&](const Candidate& candidate) {
    const bool again = std::ranges::count(machine.runs, candidate) > 1;
    return again && candidate.placement.sm_percent == 50 ? "the second run broke" : "";
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), processes(4, 38)) << text_of(choice_of(result));
  EXPECT_TRUE(is_left_out(result, "failed in turns with the others: the second run broke"));
}

TEST(SearchShare, TakesNoTimeOfTheFinals) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return processes_of(candidate.placement) > 1 ? 500.0 : 1000.0;
  };
  SearchLimits limits = ample_limits;
  limits.seconds = machine.run_seconds * (7 + 9 + 1);  // for the seven counts and three rounds
  const TuneResult result = machine.search(limits);
  EXPECT_EQ(row_of(result, Candidate{}).final_runs.size(), 3U);
  EXPECT_EQ(result.left_out,
            (std::vector<std::string>{"2 processes of 50 %, 1 worker each: no time left",
                                      "2 processes of 75 %, 1 worker each: no time left"}));
}

TEST(SearchShare, IsNotChosenByOneRun) {
  MadeUpMachine machine;
  machine.one_batch = ahead_with_share;
  SearchLimits limits = ample_limits;
  // For the seven counts, three rounds and the share, but no fourth round.
  limits.seconds = machine.run_seconds * (7 + 9 + 1 + 2);
  const TuneResult result = machine.search(limits);
  EXPECT_EQ(choice_of(result), Candidate{});
  EXPECT_EQ(result.left_out,
            (std::vector<std::string>{"2 processes of 75 %, 1 worker each: no time left",
                                      "2 processes of 50 %, 1 worker each: no time left for it in "
                                      "turns with the others"}));
}

TEST(SearchShare, IsNotChosenByOneRunWhereThatInTurnsFails) {
  MadeUpMachine machine;
  machine.one_batch = ahead_with_share;
  machine.problem = [&](const Candidate& candidate) {
    return std::ranges::count(machine.runs, candidate) > 1 && candidate.placement.sm_percent > 0
               ? "the second run broke"
               : "";
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_GT(std::ranges::count(machine.runs, processes(2, 50)), 1);
  EXPECT_EQ(choice_of(result), Candidate{});
  EXPECT_TRUE(is_left_out(result,
                          "2 processes of 50 %, 1 worker each: failed in turns with the "
                          "others: the second run broke"));
}

TEST(SearchShare, KeepsTheTimeOfItsRoundWhereMoreWorkersWouldHelp) {
  for (const double of_a_thread : {150.0, 300.0}) {
    MadeUpMachine machine;
    machine.one_batch = ahead_with_share;
    machine.loader = [=](int threads) { return of_a_thread * threads; };
    SearchLimits limits = ample_limits;
    // For the seven counts and one rank with more workers, three rounds, the share and a round with
    // it, but no run more; a part is kept for ending a run.
    limits.seconds = machine.run_seconds * (8 + 9 + 1 + 4 + 1);
    const TuneResult result = machine.search(limits);
    EXPECT_EQ(choice_of(result).placement, processes(2, 50).placement) << of_a_thread;
    EXPECT_EQ(row_of(result, choice_of(result)).final_runs.size(), 1U) << of_a_thread;
    EXPECT_TRUE(is_left_out(result, "each: no time left")) << "with more workers";
    EXPECT_LE(machine.now, limits.seconds);
  }
}

TEST(SearchShare, ThatTrainsFastestIsMeasuredInTurnsThoughNotFastestOnOneBatch) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    if (candidate.placement.sm_percent > 0) return 990.0;
    return processes_of(candidate.placement) > 1 ? 500.0 : 1000.0;
  };
  // However many workers one process has, it is fed by one at a time.
  const auto fed_by_processes = [&](const Candidate& candidate, double most) {
    Measurement found = machine.measure(candidate, most);
    if (found.rates) {
      found.rates->training =
          std::min(found.rates->one_batch, 450.0 * processes_of(candidate.placement));
    }
    return found;
  };
  SearchLimits limits = ample_limits;
  limits.seconds = 240.0;
  const TuneResult result = search_placement(limits, fed_by_processes, [&] { return machine.now; });
  EXPECT_EQ(choice_of(result), processes(2, 50)) << text_of(choice_of(result));
  EXPECT_GE(row_of(result, processes(2, 50)).final_runs.size(), 1U);
  EXPECT_NEAR(result.gain(), 1.0, 1e-9);
}

}  // namespace
}  // namespace tandem
