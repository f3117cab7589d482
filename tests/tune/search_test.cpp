#include "tune/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/message.h"
#include "tune/made_up.h"

namespace tandem {
namespace {

TEST(Search, FindsTheFastestWithinTheTime) {
  for (const Candidate& best :
       {folded(2), folded(8), processes(2), processes(4), processes(4, 50), processes(8, 13)}) {
    MadeUpMachine machine;
    machine.noise = 0.01;
    machine.one_batch = [&](const Candidate& candidate) {
      if (candidate.placement == best.placement) return 2000.0;
      // Its own count without an SM share is the best of the counts.
      if (candidate == processes(best.placement.ranks_per_device)) return 1800.0;
      return 1000.0;
    };
    const TuneResult result = machine.search(ample_limits);
    EXPECT_EQ(choice_of(result), best);
    EXPECT_NEAR(result.gain(), 1.0, 0.05);
    EXPECT_LE(machine.now, ample_limits.seconds);
    EXPECT_GE(row_of(result, best).final_runs.size(), 2U);
    EXPECT_EQ(result.device, "made-up GPU");
  }
}

TEST(Search, BeginsWithOneRankAndEndsInTurns) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(4) ? 3000.0 : candidate == processes(2) ? 2000.0 : 1000.0;
  };
  const TuneResult result = machine.search(ample_limits);
  const Candidate one;
  EXPECT_EQ(machine.runs.front(), one);
  const std::vector<Candidate> finals(machine.runs.end() - 11, machine.runs.end() - 2);
  const std::vector<Candidate> round{one, folded(4), processes(2)};
  for (std::size_t i = 0; i < finals.size(); ++i) EXPECT_EQ(finals[i], round[i % 3]) << i;
  EXPECT_EQ(row_of(result, one).final_runs.size(), 3U);
  const std::vector<Candidate> last(machine.runs.end() - 2, machine.runs.end());
  EXPECT_EQ(last, (std::vector{processes(2, 50), processes(2, 75)}))
      << "what was not expected to win";
  EXPECT_TRUE(result.left_out.empty());
}

TEST(Search, AnswersOneWithinTheSpread) {
  MadeUpMachine machine;
  machine.noise = 0.03;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(4) ? 1020.0 : 1000.0;
  };
  const TuneResult within = machine.search(ample_limits);
  EXPECT_EQ(choice_of(within), Candidate{});
  EXPECT_GT(within.spread(), 0.02);

  MadeUpMachine quiet;
  quiet.one_batch = machine.one_batch;
  EXPECT_EQ(choice_of(quiet.search(ample_limits)), folded(4)) << "2 % without noise are a gain";
}

TEST(Search, AnswersOneWhereItIsFastest) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate.placement.ranks_per_device == 1 ? 1000.0 : 700.0;
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), Candidate{});
  EXPECT_NEAR(result.gain(), -0.3, 1e-9);
}

TEST(Search, GoesOnWhereACandidateDoesNotFit) {
  MadeUpMachine machine;
  machine.problem = [](const Candidate& candidate) {
    return processes_of(candidate.placement) >= 4 ? "out of memory on it" : "";
  };
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == processes(2) ? 1500.0 : 1000.0;
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), processes(2));
  EXPECT_TRUE(row_of(result, processes(4)).does_not_fit);
  EXPECT_FALSE(row_of(result, processes(4)).measured());
}

TEST(Search, ChoosesAnotherWhereOneRankDoesNotFit) {
  MadeUpMachine machine;
  machine.problem = [](const Candidate& candidate) {
    return candidate.placement.ranks_per_device < 4 ? "out of memory on it" : "";
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_FALSE(result.one_rank);
  EXPECT_GE(choice_of(result).placement.ranks_per_device, 4);
}

TEST(Search, SaysWhereNothingFitsAndWhereOneRankFails) {
  MadeUpMachine small;
  small.problem = [](const Candidate&) { return "out of memory on it"; };
  EXPECT_NE(message_of<InputError>([&] { small.search(ample_limits); }).find("out of memory on it"),
            std::string::npos);
  MadeUpMachine broken;
  broken.problem = [](const Candidate&) { return "the data is gone"; };
  EXPECT_NE(message_of<InputError>([&] { broken.search(ample_limits); }).find("the data is gone"),
            std::string::npos);
  EXPECT_EQ(broken.runs.size(), 1U) << "what one rank cannot, others are not tried with";
}

TEST(Search, KeepsTimeForTheFinals) {
  for (const double seconds : {20.0, 40.0, 60.0}) {
    MadeUpMachine machine;
    machine.one_batch = [](const Candidate& candidate) {
      return candidate == folded(2) ? 1500.0 : 1000.0;
    };
    SearchLimits limits = ample_limits;
    limits.seconds = seconds;
    const TuneResult result = machine.search(limits);
    EXPECT_LE(machine.now, seconds);
    EXPECT_FALSE(result.left_out.empty()) << seconds;
    if (seconds >= 40.0) {
      EXPECT_EQ(choice_of(result), folded(2));
      EXPECT_GE(row_of(result, Candidate{}).final_runs.size(), 2U) << seconds;
    }
  }
}

TEST(Search, ASlowFirstRunDoesNotCountForTheOthers) {
  MadeUpMachine machine;
  machine.first_run_seconds = 40.0;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(8) ? 1500.0 : 1000.0;
  };
  EXPECT_EQ(choice_of(machine.search(ample_limits)), folded(8));
  EXPECT_LE(machine.now, ample_limits.seconds);
}

TEST(Search, SaysWhereTheFirstRunTakesAllOfTheTime) {
  MadeUpMachine machine;
  machine.first_run_seconds = 1e6;
  const std::string message = message_of<InputError>([&] { machine.search(ample_limits); });
  EXPECT_NE(message.find("one rank with the whole batch was not measured within 116.4 s: give more "
                         "than --seconds 120"),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(machine.now, ample_limits.seconds) << "a run needs a moment to end";
  EXPECT_GT(machine.now, 0.9 * ample_limits.seconds) << "it may choose kernels for long";
  EXPECT_EQ(machine.runs.size(), 1U);
  auto long_limits = ample_limits;
  long_limits.seconds = 1200.0;
  MadeUpMachine another;
  another.first_run_seconds = 1e6;
  const std::string at_length = message_of<InputError>([&] { another.search(long_limits); });
  EXPECT_NE(at_length.find("within 1164 s: give more than --seconds 1200"), std::string::npos)
      << at_length;
}

TEST(Search, ASlowFirstRunLeavesNoMoreThanThereIs) {
  MadeUpMachine machine;
  machine.first_run_seconds = 110.0;
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), Candidate{});
  EXPECT_FALSE(result.best_other);
  EXPECT_FALSE(result.left_out.empty());
  EXPECT_LE(machine.now, ample_limits.seconds);
}

TEST(Search, ACandidateThatHangsIsEnded) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate == folded(2) ? 1500.0 : 1000.0;
  };
  const TuneResult result = search_placement(
      ample_limits,
      [&](const Candidate& candidate, double seconds) {
        machine.run_seconds = candidate == processes(4) ? 1e6 : 4.0;
        return machine.measure(candidate, seconds);
      },
      [&] { return machine.now; });
  EXPECT_EQ(row_of(result, processes(4)).problem, "took too long");
  EXPECT_EQ(choice_of(result), folded(2));
  EXPECT_LE(machine.now, ample_limits.seconds);
}

TEST(Search, AddsWorkersWhileTheyHelp) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate.placement.ranks_per_device == 1 ? 1000.0 : 1600.0;
  };
  machine.loader = [](int threads) { return 300.0 * threads; };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result).placement.ranks_per_device > 1, true);
  EXPECT_TRUE(has_run(machine, {.workers = 4})) << "as many as its rates let expect";
  EXPECT_FALSE(has_run(machine, {.workers = 2}));
  EXPECT_FALSE(has_run(machine, {.workers = 8}));
  EXPECT_TRUE(has_run(machine, folded(2, 8)));
  EXPECT_FALSE(has_run(machine, folded(2, 16)));
  EXPECT_NEAR(result.gain(), 0.6, 1e-6) << "both with the workers that they need";
}

TEST(Search, TheFastestGetsItsWorkersThoughTimeIsShort) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate.placement == folded(4).placement ? 1600.0 : 1000.0;
  };
  machine.loader = [](int threads) { return 250.0 * threads; };
  SearchLimits limits = ample_limits;
  // For the seven counts and the finals, and four runs more; a part is kept for ending a run.
  limits.seconds = machine.run_seconds * (7 + 4 + 4 + 0.5);
  const TuneResult result = machine.search(limits);
  EXPECT_EQ(choice_of(result), folded(4, 8));
  EXPECT_NEAR(result.gain(), 0.6, 1e-6) << "one rank has as many";
  EXPECT_LE(machine.now, limits.seconds);
}

/// What a search measured of MobileNetV2 on an H200 at 32 px, global batch 512, bf16: on one batch,
/// and, with one worker for each process, in training; a run of processes took 11 s, of others 4.
struct Fed {
  Candidate candidate;
  double one_batch;
  double training;
};
const std::vector<Fed> fed{{{}, 334825, 47058},           {folded(2), 338034, 51442},
                           {folded(4), 322494, 50274},    {folded(8), 309146, 52018},
                           {processes(2), 276186, 68866}, {processes(4), 229860, 126148},
                           {processes(8), 166286, 166473}};

TEST(Search, FeedsOneRankBeforeItComparesOthersWithIt) {
  double now = 0.0;
  const auto measure = [&](const Candidate& candidate, double) {
    now += processes_of(candidate.placement) > 1 ? 11.0 : 4.0;
    const auto found = std::ranges::find(fed, candidate.placement,
                                         [](const Fed& each) { return each.candidate.placement; });
    if (found == fed.end()) return Measurement{.problem = "not measured"};
    const double training = std::min(found->one_batch, candidate.workers * found->training);
    return Measurement{
        .rates = Rates{.training = training, .one_batch = found->one_batch, .loader = training},
        .device = "H200",
        .on_gpus = true};
  };
  const SearchLimits limits{.global_batch = 512, .workers = 1, .cores = 32, .seconds = 120.0};
  const TuneResult result = search_placement(limits, measure, [&] { return now; });
  EXPECT_EQ(choice_of(result), folded(2, 8)) << text_of(choice_of(result));
  EXPECT_EQ(result.rows.at(result.one_rank.value()).candidate, (Candidate{.workers = 8}));
  EXPECT_LE(now, limits.seconds);
}

/// What a search measured of ShuffleNetV2 on an H100 at 32 px, global batch 512, bf16: processes
/// choose kernels for 17 s at first, and the loader kept up in one rank's first run alone.
TEST(Search, ExpectsNoKernelsToBeChosenTwiceAndFeedsWhatTheFinalsShowToStarve) {
  double now = 0.0;
  std::vector<Candidate> runs;
  const auto measure = [&](const Candidate& candidate, double) {
    const auto same = [&](const Candidate& each) { return each.placement == candidate.placement; };
    const bool processes = processes_of(candidate.placement) > 1;
    const double choosing = std::ranges::any_of(runs, same) ? 1.0 : processes ? 17.0 : 2.0;
    runs.push_back(candidate);
    now += (runs.size() == 1 ? 20.0 : 4.0) + choosing;
    const double one_batch = processes                                  ? 315e3
                             : candidate.placement.ranks_per_device > 1 ? 390e3
                                                                        : 386e3;
    const bool starves = candidate.workers < 16 && runs.size() > 1;
    const double training = starves ? 0.83 * one_batch : 0.98 * one_batch;
    return Measurement{
        .rates = Rates{.training = training, .one_batch = one_batch, .loader = training},
        .plan_seconds = choosing,
        .device = "H100",
        .on_gpus = true};
  };
  for (const double seconds : {120.0, 240.0}) {
    now = 0.0;
    runs.clear();
    const SearchLimits limits{.global_batch = 512, .workers = 8, .cores = 16, .seconds = seconds};
    const TuneResult result = search_placement(limits, measure, [&] { return now; });
    EXPECT_NE(std::ranges::find(runs, folded(4, 8)), runs.end()) << seconds;
    EXPECT_LE(now, seconds);
    const int workers = result.rows.at(result.one_rank.value()).candidate.workers;
    EXPECT_EQ(result.rows.at(result.best_other.value()).candidate.workers, workers) << seconds;
    EXPECT_EQ(workers, seconds < 240.0 ? 8 : 16) << "as the time allows";
  }
}

TEST(Search, TakesWhatTrainsFastestAmongTheFinalists) {
  // However many workers one process has, it is fed by one at a time; processes take long.
  for (const double seconds : {110.0, 120.0, 240.0}) {
    MadeUpMachine machine;
    machine.more_seconds = [](const Candidate& candidate) {
      return processes_of(candidate.placement) > 1 ? 7.0 : 0.0;
    };
    machine.one_batch = [](const Candidate& candidate) {
      return candidate == processes(8) ? 900.0 : 1000.0;
    };
    const auto fed_by_processes = [&](const Candidate& candidate, double most) {
      Measurement found = machine.measure(candidate, most);
      if (found.rates) found.rates->training = 100.0 * processes_of(candidate.placement);
      return found;
    };
    SearchLimits limits = ample_limits;
    limits.seconds = seconds;
    const TuneResult result =
        search_placement(limits, fed_by_processes, [&] { return machine.now; });
    EXPECT_EQ(choice_of(result), processes(8)) << seconds;
    EXPECT_NEAR(result.gain(), 7.0, 1e-9);
    EXPECT_GE(row_of(result, processes(8)).final_runs.size(), 2U) << seconds;
    EXPECT_EQ(row_of(result, processes(8)).final_runs.size(),
              row_of(result, Candidate{}).final_runs.size());
    EXPECT_LE(machine.now, seconds);
  }
}

TEST(Search, GivesEachHostsProcessesItsOwnCores) {
  for (const int hosts : {1, 2}) {
    MadeUpMachine machine;
    machine.devices = 4;
    machine.hosts = hosts;
    machine.loader = [](int threads) { return 10.0 * threads; };
    SearchLimits limits = ample_limits;
    limits.cores = 32;
    const TuneResult result = machine.search(limits);
    EXPECT_EQ(result.rows.at(result.one_rank.value()).candidate.workers, hosts == 1 ? 8 : 16);
    EXPECT_EQ(result.processes_of_host({.ranks_per_device = 2}), hosts == 1 ? 8 : 4);
  }
}

TEST(Search, GivesBackWorkersThatGetInEachOthersWay) {
  MadeUpMachine machine;
  machine.loader = [](int threads) {
    return 100.0 * std::min(threads, 8) * (1.0 - 0.005 * std::max(threads - 8, 0));
  };
  SearchLimits limits = ample_limits;
  limits.cores = 64;
  const TuneResult result = machine.search(limits);
  EXPECT_EQ(choice_of(result), Candidate{.workers = 8});
  EXPECT_TRUE(has_run(machine, {.workers = 16})) << "as many as its rates let expect";
}

TEST(Search, TriesFewerWorkersWhereSoManyDoNotRun) {
  MadeUpMachine machine;
  machine.loader = [](int threads) { return 100.0 * threads; };
  machine.problem = [](const Candidate& candidate) {
    return candidate.workers * processes_of(candidate.placement) > 4 ? "too many threads" : "";
  };
  const TuneResult result = machine.search(ample_limits);
  EXPECT_EQ(choice_of(result), Candidate{.workers = 4});
  EXPECT_NEAR(result.gain(), 0.0, 1e-9);
  for (const Row& row : result.rows) {
    if (row.problem.empty()) continue;
    EXPECT_EQ(std::ranges::count(machine.runs, row.candidate), 1) << text_of(row.candidate);
  }
}

TEST(Search, ARunThatStallsSaysNothingOfTheOthers) {
  for (const double stalls : {14.0, 1e6}) {
    MadeUpMachine machine;
    machine.loader = [](int threads) { return 200.0 * threads; };
    machine.more_seconds = [&](const Candidate& candidate) {
      return candidate == Candidate{.workers = 8} ? stalls : 0.0;
    };
    const TuneResult result = machine.search(ample_limits);
    for (const int ranks : {2, 4, 8}) {
      const auto ran = [ranks](const Candidate& run) {
        return run.placement.ranks_per_device == ranks;
      };
      EXPECT_TRUE(std::ranges::any_of(machine.runs, ran)) << ranks << " ranks, " << stalls;
    }
    EXPECT_LE(machine.now, ample_limits.seconds);
  }
}

TEST(Search, GivesNoMoreWorkersThanThereAreCores) {
  MadeUpMachine machine;
  machine.devices = 4;
  machine.loader = [](int threads) { return 10.0 * threads; };
  machine.search(ample_limits);
  for (const Candidate& run : machine.runs) {
    const int threads = run.workers * processes_of(run.placement) * machine.devices;
    EXPECT_LE(threads, std::max(16, processes_of(run.placement) * machine.devices)) << text_of(run);
  }
}

TEST(Search, OnACpuTriesNoMoreProcessesThanCoresAndNoShares) {
  MadeUpMachine machine;
  machine.on_gpus = false;
  SearchLimits limits = ample_limits;
  limits.cores = 2;
  const TuneResult result = machine.search(limits);
  EXPECT_TRUE(has_run(machine, processes(2)));
  EXPECT_TRUE(has_run(machine, folded(8)));
  for (const Candidate& run : machine.runs) {
    EXPECT_LE(processes_of(run.placement), 2);
    EXPECT_EQ(run.placement.sm_percent, 0);
  }
  EXPECT_EQ(result.left_out.size(), 2U);
}

TEST(Search, TriesTheCountsThatDivideTheBatch) {
  EXPECT_EQ(rank_counts({.global_batch = 512}, 1), (std::vector<int>{2, 4, 8}));
  EXPECT_EQ(rank_counts({.global_batch = 512}, 128), (std::vector<int>{2, 4}));
  EXPECT_EQ(rank_counts({.global_batch = 12, .accumulate = 3}, 1), (std::vector<int>{2, 4}));
  EXPECT_EQ(rank_counts({.global_batch = 5}, 1), (std::vector<int>{}));
}

TEST(Search, TriesSharesAroundAnEqualOne) {
  EXPECT_EQ(sm_shares(2), (std::vector<int>{50, 75}));
  EXPECT_EQ(sm_shares(4), (std::vector<int>{25, 38, 50}));
  EXPECT_EQ(sm_shares(8), (std::vector<int>{13, 19, 25}));
}

}  // namespace
}  // namespace tandem
