#include <gtest/gtest.h>

#include <algorithm>

#include "tune/made_up.h"
#include "tune/search.h"

// Rounds of finals: what time is kept for them, and what counts where they do not come to their
// end.

namespace tandem {
namespace {

/// Where 4 folded ranks are the fastest, and one rank's loader takes a run of its own.
MadeUpMachine slow_machine(double run_seconds) {
  MadeUpMachine machine;
  machine.first_run_seconds = run_seconds + 1.0;
  machine.run_seconds = run_seconds;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate.placement == folded(4).placement ? 1200.0 : 1000.0;
  };
  machine.loader = [](int threads) { return 800.0 * threads; };
  return machine;
}

TEST(SearchFinals, LeaveTimeForOthersThoughRunsTakeASixthOfIt) {
  MadeUpMachine machine = slow_machine(19.0);
  const TuneResult result = machine.search(ample_limits);
  EXPECT_TRUE(has_run(machine, folded(2, 2)));
  EXPECT_EQ(choice_of(result), folded(4, 2));
  EXPECT_TRUE(result.measured_in_turns());
  EXPECT_LE(machine.now, ample_limits.seconds);
}

TEST(SearchFinals, HaveTwoRoundsWhereTheseTakeNoMoreThanHalfOfTheTime) {
  // Four runs of 14.5 s are less than half of 120 s, of 15.5 s more.
  for (const auto& [seconds, rounds] : {std::pair{14.5, 2U}, std::pair{15.5, 1U}}) {
    MadeUpMachine machine = slow_machine(seconds);
    const TuneResult result = machine.search(ample_limits);
    EXPECT_EQ(row_of(result, choice_of(result)).final_runs.size(), rounds) << seconds;
    EXPECT_EQ(row_of(result, {.workers = 2}).final_runs.size(), rounds) << seconds;
    EXPECT_LE(machine.now, ample_limits.seconds);
  }
}

TEST(SearchFinals, AreTriedWhereTheyMayTakeLongerThanThereIs) {
  MadeUpMachine machine;
  machine.first_run_seconds = 19.5;
  machine.run_seconds = 17.5;
  machine.loader = [](int threads) { return 60.0 * threads; };
  // Folded ones are slower once, and so expected to be.
  machine.more_seconds = [&](const Candidate& candidate) {
    return candidate.placement.ranks_per_device > 1 && !has_run(machine, candidate) ? 5.25 : 0.0;
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_TRUE(result.measured_in_turns());
  EXPECT_LE(machine.now, ample_limits.seconds);
}

/// A machine that gets busy once the finals begin: all make less, and others than one rank take
/// `more`.
struct BusyLater {
  explicit BusyLater(double more) {
    machine.one_batch = [this](const Candidate& candidate) {
      if (std::ranges::count(machine.runs, candidate) > 1) return 400.0;
      return candidate == folded(2) ? 1050.0 : 1000.0;
    };
    machine.more_seconds = [this, more](const Candidate& candidate) {
      const bool again = has_run(machine, candidate);
      return again && candidate.placement.ranks_per_device > 1 ? more : 0.0;
    };
  }
  TuneResult search() {
    return search_placement(
        ample_limits,
        [this](const Candidate& candidate, double seconds) {
          EXPECT_GT(seconds, 0.0) << text_of(candidate);
          return machine.measure(candidate, seconds);
        },
        [this] { return machine.now; });
  }
  MadeUpMachine machine;
};

TEST(SearchFinals, CountForNothingWhereTheirOnlyRoundDoesNotComeToItsEnd) {
  BusyLater busy(1e6);
  const TuneResult result = busy.search();
  EXPECT_FALSE(result.measured_in_turns());
  EXPECT_TRUE(row_of(result, Candidate{}).final_runs.empty()) << "400 of one rank, 1050 of others";
  EXPECT_NEAR(result.gain(), 0.05, 1e-9);
  EXPECT_LE(busy.machine.now, ample_limits.seconds);
}

TEST(SearchFinals, BeginNoRunWhereOneThatEndedLateLeftNoTime) {
  MadeUpMachine machine;
  const TuneResult result = search_placement(
      ample_limits,
      [&](const Candidate& candidate, double seconds) {
        EXPECT_GT(seconds, 0.0) << text_of(candidate);
        if (has_run(machine, candidate)) machine.now = ample_limits.seconds;
        return machine.measure(candidate, 1e9);
      },
      [&] { return machine.now; });
  EXPECT_FALSE(result.measured_in_turns());
}

TEST(SearchFinals, CompareRunsOfTheSameMoments) {
  BusyLater busy(0.0);
  const TuneResult result = busy.search();
  EXPECT_TRUE(result.measured_in_turns());
  EXPECT_NEAR(result.gain(), 0.0, 1e-9);
  EXPECT_EQ(choice_of(result), Candidate{});
}

/// On a machine whose runs leave the time for one round: 2 folded ranks train at `before` and in
/// the round at `then`, one rank at 1000 and `one_then`. On one batch nothing changes.
TuneResult of_one_round(double before, double then, double one_then) {
  MadeUpMachine machine;
  machine.first_run_seconds = 19.0;
  machine.run_seconds = 18.0;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == Candidate{} ? 1000.0 : candidate == folded(2) ? 2000.0 : 500.0;
  };
  TuneResult result = search_placement(
      ample_limits,
      [&](const Candidate& candidate, double seconds) {
        const bool again = has_run(machine, candidate);
        Measurement found = machine.measure(candidate, seconds);
        if (found.rates && candidate == folded(2)) found.rates->training = again ? then : before;
        if (found.rates && candidate == Candidate{} && again) found.rates->training = one_then;
        return found;
      },
      [&] { return machine.now; });
  EXPECT_EQ(row_of(result, Candidate{}).final_runs.size(), 1U);
  EXPECT_NEAR(result.gain_before_only_round().value_or(-1.0), before / 1000.0 - 1.0, 1e-9);
  EXPECT_NEAR(result.gain(), then / one_then - 1.0, 1e-9);
  return result;
}

TEST(SearchFinals, OfOneRoundChooseAnotherWhereTheRunsBeforeDoToo) {
  EXPECT_EQ(choice_of(of_one_round(1400.0, 1150.0, 1000.0)), folded(2));
  EXPECT_EQ(choice_of(of_one_round(1000.0, 1300.0, 1000.0)), Candidate{});
  EXPECT_EQ(choice_of(of_one_round(1300.0, 1000.0, 1000.0)), Candidate{});
  EXPECT_EQ(choice_of(of_one_round(900.0, 900.0, 100.0)), Candidate{}) << "one rank was disturbed";
}

TEST(SearchFinals, OfOneRoundAreNotBelievedWhereTheRunsBeforeAreFarOff) {
  EXPECT_TRUE(of_one_round(900.0, 900.0, 100.0).is_contradicted());
  EXPECT_TRUE(of_one_round(1400.0, 500.0, 1000.0).is_contradicted());
  EXPECT_FALSE(of_one_round(1400.0, 1000.0, 1000.0).is_contradicted());
}

TEST(SearchFinals, OfOneRoundChooseTheFastestOfThoseThatAreFasterInTheRunsBeforeToo) {
  MadeUpMachine machine;
  // Runs in turns take so much longer than expected that one round is all there is.
  machine.first_run_seconds = machine.run_seconds = 6.0;
  machine.more_seconds = [&](const Candidate& candidate) {
    return has_run(machine, candidate) ? 10.0 : 0.0;
  };
  // 2 folded are the fastest in the round alone, 4 folded in both.
  machine.one_batch = [&](const Candidate& candidate) {
    const bool again = std::ranges::count(machine.runs, candidate) > 1;
    if (candidate == folded(2)) return again ? 1500.0 : 990.0;
    return candidate == folded(4) ? 1200.0 : candidate == Candidate{} ? 1000.0 : 500.0;
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(row_of(result, folded(2)).final_runs.size(), 1U);
  EXPECT_EQ(row_of(result, folded(4)).final_runs.size(), 1U);
  EXPECT_EQ(choice_of(result), folded(4));
}

TEST(SearchFinals, SayOnceWhatThereIsNoTimeFor) {
  bool was_said = false;
  for (double seconds = 20.0; seconds < 120.0; seconds += 2.0) {
    for (const double of_a_thread : {150.0, 300.0}) {
      MadeUpMachine machine;
      machine.noise = 0.3;
      machine.loader = [=](int threads) { return of_a_thread * threads; };
      SearchLimits limits = ample_limits;
      limits.seconds = seconds;
      const TuneResult result = machine.search(limits);
      for (const std::string& line : result.left_out) {
        EXPECT_EQ(std::ranges::count(result.left_out, line), 1) << line;
        was_said = was_said || line.ends_with("no time left");
      }
    }
  }
  EXPECT_TRUE(was_said);
}

TEST(SearchFinals, LeaveOutWhatFailsInThem) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(2) ? 1500.0 : candidate == folded(4) ? 1200.0 : 1000.0;
  };
  machine.problem = [&](const Candidate& candidate) {
    return candidate == folded(2) && std::ranges::count(machine.runs, candidate) > 1
               ? "the second run broke"
               : "";
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), folded(4)) << "1500 were of a single run";
  EXPECT_EQ(std::ranges::count(machine.runs, folded(2)), 2);
  EXPECT_EQ(row_of(result, folded(4)).final_runs.size(), 3U);
  EXPECT_TRUE(std::ranges::find(result.left_out,
                                "2 folded, 1 worker: failed in turns with the others: the second "
                                "run broke") != result.left_out.end());
}

TEST(SearchFinals, HaveNoRoundWhereOneRankFailsInThem) {
  MadeUpMachine machine;
  machine.problem = [&](const Candidate& candidate) {
    return candidate == Candidate{} && std::ranges::count(machine.runs, candidate) > 1
               ? "the second run broke"
               : "";
  };
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(2) ? 1500.0 : 1000.0;
  };
  const TuneResult result = machine.search(ample_limits);
  ASSERT_TRUE(result.one_rank) << "it ran";
  EXPECT_FALSE(result.measured_in_turns());
}

}  // namespace
}  // namespace tandem
