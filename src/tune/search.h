#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tune/candidate.h"

namespace tandem {

/// What bounds a search.
struct SearchLimits {
  std::int64_t global_batch = 1;
  int accumulate = 1;
  int workers = 1;  ///< data.workers of the config
  int cores = 1;    ///< of a host: loader workers and a CPU's processes are no more than these
  double seconds = 120.0;
};

/// Runs a candidate once; ends it where it takes longer than `seconds`.
using Measure = std::function<Measurement(const Candidate& candidate, double seconds)>;
/// Seconds since the search began.
using Elapsed = std::function<double()>;

/// What a search found out.
struct TuneResult {
  std::string device{};
  int devices = 1;
  int hosts = 1;
  bool on_gpus = false;

  std::vector<Row> rows{};  ///< in the order in which they were first measured
  /// Not measured, or not in turns with the finalists though it was to be, and why: one line each.
  std::vector<std::string> left_out{};
  /// Indices of the choice, of one rank on each device (absent where it does not run), and of the
  /// best of the others (absent where none runs).
  std::size_t choice = 0;
  std::optional<std::size_t> one_rank{};
  std::optional<std::size_t> best_other{};

  /// Processes of a host, at most.
  int processes_of_host(const Placement& placement) const;
  /// Training throughput of the best other placement over that of one rank, minus 1. Meant where
  /// both are there.
  double gain() const;
  /// What the gain must exceed: the larger spread of the two.
  double spread() const;
  /// The same gain by the runs before those in turns, where of these there is a single round, which
  /// may have met a busy moment.
  std::optional<double> gain_before_only_round() const;
  /// Whether the best other placement beats one rank by more than the spread, by those runs too.
  bool other_is_faster() const;
  /// By which factor the ratio of their rates may change between those runs and that round.
  static constexpr double contradiction = 2.0;
  /// Whether it changed by more, so that neither is to be believed.
  bool is_contradicted() const;
  /// Whether one rank and the best other placement were compared by runs in turns. Single runs, of
  /// different moments, may differ by what else the host was at.
  bool measured_in_turns() const;
};

/// Numbers of ranks on each device beside one that the search tries: 2, 4 and 8, where they divide
/// the batch.
std::vector<int> rank_counts(const SearchLimits& limits, int devices);
/// Shares of a GPU's multiprocessors that are tried for so many processes: an equal share, one and
/// a half, and twice of it, in percent, below 100.
std::vector<int> sm_shares(int processes);

/// Searches for the candidate that trains fastest, within the time, whatever a run may take, but
/// for what ending a run takes that was not done by then:
///
/// 1. one rank on each device with the whole batch; the first time this may take most of the time,
///    since a GPU's kernels are chosen, but no other run is expected to take as long. As long as
///    the loader slows it down, with more loader workers: as many as its rates let expect, up to
///    the cores, or as many of them as help;
/// 2. 2, 4 and 8 ranks, folded, then as processes, with as many workers in all, compared on one
///    batch, so that a slow loader hides no difference;
/// 3. SM shares at the best number of processes, where these are within reach of the best;
/// 4. more workers, in the same way, for the fastest of all; then for one rank and the two fastest
///    others as many as that one has in all, and more as far as they help;
/// 5. one rank, those two, and what trained faster than both by more than its spread, in turns:
///    their medians decide. Where not even two rounds fit, the slowest others are left out. A round
///    that does not come to its end counts for nothing. Where these runs show loaders that do not
///    keep up, as in 4, and as far as another round fits, in turns again;
/// 6. where time is left and processes were out of reach in 3, their SM shares. Those that are the
///    fastest of all on one batch, or train faster than all by more than their spread, with the
///    workers that help them, in turns with the others, the fastest share first.
///
/// Another placement is chosen only where it beats one rank by more than the spread, in a single
/// round and in the runs before it alike. Throws InputError where one rank fails for another reason
/// than memory or is not done within the time, and where nothing fits.
TuneResult search_placement(const SearchLimits& limits, const Measure& measure,
                            const Elapsed& elapsed);

}  // namespace tandem
