#include "tune/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tune/made_up.h"

namespace tandem {
namespace {

Sweep sweep_of(MadeUpMachine& machine, const TuneResult& searched) {
  return run_sweep(ample_limits, searched,
                   [&](const Candidate& each, double s) { return machine.measure(each, s); });
}

TEST(Sweep, TellsNoRegretWhereTheSearchFoundTheBest) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate& candidate) {
    return candidate.placement == folded(4).placement ? 1500.0 : 1000.0;
  };
  const TuneResult searched = machine.search(ample_limits);
  const Sweep sweep = sweep_of(machine, searched);
  EXPECT_EQ(sweep.rows.at(sweep.best).candidate, folded(4));
  EXPECT_EQ(sweep.regret, 0.0);
}

TEST(Sweep, FindsWhatTheSearchCouldNotSee) {
  MadeUpMachine machine;
  // Eight processes are slow but for one SM share, which the search does not try.
  machine.one_batch = [](const Candidate& candidate) {
    if (candidate.placement == processes(8, 19).placement) return 2000.0;
    return candidate.placement == folded(4).placement ? 1500.0 : 1000.0;
  };
  const TuneResult searched = machine.search(ample_limits);
  ASSERT_EQ(searched.rows.at(searched.choice).candidate, folded(4));
  const Sweep sweep = sweep_of(machine, searched);
  EXPECT_EQ(sweep.rows.at(sweep.best).candidate, processes(8, 19));
  EXPECT_NEAR(sweep.regret, 0.25, 1e-9);
  EXPECT_EQ(sweep.again.size(), 2U);
  EXPECT_EQ(sweep.again[0].runs.size(), 3U);
}

TEST(Sweep, GivesNoMoreWorkersThanKeepUp) {
  MadeUpMachine machine;
  machine.one_batch = [](const Candidate&) { return 1000.0; };
  machine.loader = [](int threads) { return 300.0 * threads; };
  const Sweep sweep = sweep_of(machine, machine.search(ample_limits));
  std::vector<int> workers;
  for (const Row& row : sweep.rows) {
    if (row.candidate.placement == Placement{}) workers.push_back(row.candidate.workers);
  }
  EXPECT_EQ(workers, (std::vector<int>{1, 2, 4}));
}

TEST(Sweep, MeasuresTheChoiceWhateverItsWorkers) {
  MadeUpMachine machine;
  machine.loader = [](int threads) { return 300.0 * threads; };
  TuneResult searched = machine.search(ample_limits);
  Candidate choice{.workers = 16};
  searched.rows = {{.candidate = choice, .runs = {Rates{.training = 1000.0, .one_batch = 1000.0}}}};
  searched.choice = 0;
  const Sweep sweep = sweep_of(machine, searched);
  EXPECT_NE(std::ranges::find(sweep.rows, choice, &Row::candidate), sweep.rows.end());
  EXPECT_EQ(std::ranges::find(sweep.rows, Candidate{.workers = 8}, &Row::candidate),
            sweep.rows.end());
}

TEST(Sweep, TheGridHasEveryPlacementOnce) {
  MadeUpMachine machine;
  const TuneResult searched = machine.search(ample_limits);
  std::vector<Candidate> grid = whole_grid(ample_limits, searched);
  // One rank and 3 folded ones with 1 to 16 workers; 2 processes of 2 shares and none with 1 to 8;
  // 4 of 3 shares and none with 1, 2, 4; 8 likewise with 1, 2.
  EXPECT_EQ(grid.size(), 4U * 5 + 3U * 4 + 4U * 3 + 4U * 2);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    EXPECT_EQ(std::count(grid.begin(), grid.end(), grid[i]), 1) << text_of(grid[i]);
  }
}

TEST(Sweep, TheGridHasWhateverTheSearchTries) {
  MadeUpMachine machine;
  machine.loader = [](int threads) { return 90.0 * threads; };
  const TuneResult searched = machine.search(ample_limits);
  ASSERT_GT(searched.rows.at(searched.choice).candidate.workers, 4);
  const std::vector<Candidate> grid = whole_grid(ample_limits, searched);
  for (const Row& row : searched.rows) {
    EXPECT_NE(std::ranges::find(grid, row.candidate), grid.end()) << text_of(row.candidate);
  }
}

}  // namespace
}  // namespace tandem
