#include "tune/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/median.h"

namespace tandem {
namespace {

constexpr int final_rounds = 3;
/// Training at this share of the rate on one batch is not slowed down by the loader.
constexpr double loader_keeps_up = 0.97;
/// More workers must gain this much to be worth their cores.
constexpr double worth_more_workers = 1.02;
/// Processes slower than this share of the best are hardly made the fastest by an SM share.
constexpr double within_reach = 0.8;

/// Of the whole time at most, for one candidate to choose its kernels and run.
constexpr double longest_share = 0.25;
/// Of the whole time at most, to keep for two rounds of finals: where runs are slower, another
/// placement that is measured is worth more than the second round.
constexpr double two_rounds_share = 0.5;
/// Of the time that it is expected to take, for the first round to be tried.
constexpr double first_round_share = 0.5;
/// Of the whole time, for a run that takes too long to end once it is told to.
constexpr double ending_share = 0.03;

/// A model and its plan take about so long where kernels are chosen already.
constexpr double usual_plan_seconds = 1.5;

class Search {
 public:
  Search(const SearchLimits& limits, const Measure& measure, const Elapsed& elapsed)
      : limits_(limits), measure_(measure), elapsed_(elapsed) {}

  TuneResult run() {
    Candidate one{.workers = limits_.workers};
    measure_one_rank(one);
    add_workers(one);
    try_counts(one.workers);
    try_sm_shares();
    std::vector<Candidate> finalists{one};
    std::ranges::copy(last_others(), std::back_inserter(finalists));
    add_workers(finalists);
    leave_out_what_is_too_long(finalists);
    repeat(finalists);
    // More runs may show what one did not: a loader that does not keep up.
    reserved_seconds_ = expected_seconds(finalists);
    std::vector<Candidate> fed = finalists;
    add_workers(fed);
    // Unless all could be measured once more, some would be compared by runs that others never had.
    if (fed != finalists && repeat(fed) > 0) finalists = fed;
    try_shares_out_of_reach(finalists);
    decide(finalists);
    return std::move(result_);
  }

 private:
  /// What a run of the placement took last, but for choosing its kernels, which it would not do
  /// again unless it borrows; of one that has not run, what most take with that. The first run of
  /// all fills caches, so its time says little; before there are two others, a thirtieth of the
  /// budget.
  double expected_seconds(const Placement& placement) const {
    const bool has_run = std::ranges::find(runs_, placement, &Run::placement) != runs_.end();
    std::vector<double> all;
    double own = 0.0;
    for (std::size_t i = 1; i < runs_.size(); ++i) {
      all.push_back(has_run ? runs_[i].again : runs_[i].seconds);
      if (runs_[i].placement == placement) own = runs_[i].again;
    }
    if (own > 0.0) return own;
    return all.size() < 2 ? limits_.seconds / 30.0 : median(std::move(all));
  }
  double expected_seconds(const std::vector<Candidate>& candidates) const {
    double sum = 0.0;
    for (const Candidate& each : candidates) sum += expected_seconds(each.placement);
    return sum;
  }

  /// For runs to go on.
  double left() const { return (1.0 - ending_share) * limits_.seconds - elapsed_(); }
  /// For two rounds, or one, of one rank and whichever other is left of `next` and those that would
  /// come last by what is known now.
  double reserved_beside(const Candidate& next) const {
    if (reserved_seconds_) return *reserved_seconds_;
    const double one = expected_seconds(Placement{});
    double other = std::max(one, expected_seconds(next.placement));
    for (const Candidate& each : last_others()) {
      other = std::max(other, expected_seconds(each.placement));
    }
    const double round = one + other;
    return 2.0 * round <= two_rounds_share * limits_.seconds ? 2.0 * round : round;
  }

  Row& row_of(const Candidate& candidate) {
    const auto found = std::ranges::find(result_.rows, candidate, &Row::candidate);
    if (found != result_.rows.end()) return *found;
    return result_.rows.emplace_back(Row{.candidate = candidate});
  }

  bool was_tried(const Candidate& candidate) const {
    return std::ranges::find(result_.rows, candidate, &Row::candidate) != result_.rows.end();
  }
  /// Null where nothing was measured of it.
  const Row* measured(const Candidate& candidate) const {
    const auto found = std::ranges::find(result_.rows, candidate, &Row::candidate);
    return found != result_.rows.end() && found->measured() ? &*found : nullptr;
  }

  /// 0 where nothing was measured of it.
  double one_batch_of(const Candidate& candidate) const {
    const Row* row = measured(candidate);
    return row == nullptr ? 0.0 : row->one_batch();
  }

  Measurement measure(const Candidate& candidate, double seconds) {
    const double before = elapsed_();
    Measurement found = measure_(candidate, seconds);
    Row& row = row_of(candidate);
    if (!found.rates) {
      row.problem = found.problem;
      row.does_not_fit = found.does_not_fit;
      row.timed_out = found.timed_out;
      return found;
    }
    const double took = elapsed_() - before;
    const bool has_run =
        std::ranges::find(runs_, candidate.placement, &Run::placement) != runs_.end();
    const bool chooses_once = found.on_gpus && !has_run && !found.rates->borrowed_kernels;
    const double choosing = chooses_once ? found.plan_seconds - usual_plan_seconds : 0.0;
    runs_.push_back({candidate.placement, took, std::clamp(took - choosing, 0.0, took)});
    result_.device = found.device;
    result_.devices = found.devices;
    result_.hosts = found.hosts;
    result_.on_gpus = found.on_gpus;
    return found;
  }

  /// Told once, however often it is tried.
  void leave_out(const std::string& line) {
    if (std::ranges::count(result_.left_out, line) == 0) result_.left_out.push_back(line);
  }

  /// Measures the candidate once, where that leaves the time for the finals.
  void explore(const Candidate& candidate) {
    const double for_runs = left() - reserved_beside(candidate);
    if (for_runs < expected_seconds(candidate.placement)) {
      leave_out(text_of(candidate) + ": no time left");
      return;
    }
    const double most = std::min(for_runs, longest_share * limits_.seconds);
    const Measurement found = measure(candidate, most);
    if (found.rates) row_of(candidate).runs.push_back(*found.rates);
  }

  void measure_one_rank(const Candidate& one) {
    // All others are measured against it, so it may have all of the time for choosing its kernels.
    const double most = left();
    const Measurement found = measure(one, most);
    if (found.rates) row_of(one).runs.push_back(*found.rates);
    if (found.rates || found.does_not_fit) return;
    if (!found.timed_out) input_error("one rank cannot be measured: {}", found.problem);
    input_error(
        "one rank with the whole batch was not measured within {:.4g} s: give more than --seconds "
        "{:g}; where a GPU's kernels were still being chosen, which are kept, another start goes "
        "on from there",
        most, limits_.seconds);
  }

  /// `threads`: loader workers in all, where the config does not want more of each process. Folded
  /// ones first: their convolutions are those of one rank, so that hardly a kernel has to be
  /// chosen, and none of them is left out for the time that processes take.
  void try_counts(int threads) {
    const std::vector<int> counts = rank_counts(limits_, result_.devices);
    for (const int ranks : counts) {
      explore({.placement = {.ranks_per_device = ranks, .colocation = Colocation::folded},
               .workers = threads});
    }
    for (const int ranks : counts) {
      const Candidate processes{.placement = {.ranks_per_device = ranks},
                                .workers = std::max(limits_.workers, threads / ranks)};
      if (!result_.on_gpus && ranks > limits_.cores) {
        leave_out(fmt::format("{}: cores for them: {}", text_of(processes), limits_.cores));
        continue;
      }
      explore(processes);
    }
  }

  static bool is_other(const Candidate& candidate) {
    return candidate.placement.ranks_per_device > 1;
  }

  const Row* fastest(const std::function<bool(const Candidate&)>& which) const {
    const Row* best = nullptr;
    for (const Row& row : result_.rows) {
      if (!row.measured() || !which(row.candidate)) continue;
      if (best == nullptr || row.one_batch() > best->one_batch()) best = &row;
    }
    return best;
  }

  void try_sm_shares() {
    const Row* processes =
        fastest([](const Candidate& each) { return processes_of(each.placement) > 1; });
    if (!result_.on_gpus || processes == nullptr) return;
    const Row* best = fastest([](const Candidate&) { return true; });
    Candidate candidate = processes->candidate;  // rows move as they become more
    const bool out_of_reach = processes->one_batch() < within_reach * best->one_batch();
    for (const int percent : sm_shares(candidate.placement.ranks_per_device)) {
      candidate.placement.sm_percent = percent;
      out_of_reach ? out_of_reach_.push_back(candidate) : explore(candidate);
    }
  }

  /// With the time that is left behind the finals. Against expectation one may be the fastest: then
  /// it is measured in turns with them, the fastest first.
  void try_shares_out_of_reach(std::vector<Candidate>& finalists) {
    reserved_seconds_ = 0.0;  // these runs mostly show that no other round is needed
    for (const Candidate& share : out_of_reach_) {
      explore(share);
      if (!is_ahead(share, finalists)) continue;
      reserved_seconds_ = expected_seconds(finalists) + expected_seconds(share.placement);
    }
    std::ranges::stable_sort(out_of_reach_, std::greater<>(),
                             [this](const Candidate& share) { return one_batch_of(share); });
    for (const Candidate& share : out_of_reach_) {
      if (is_ahead(share, finalists)) measure_in_turns(share, finalists);
    }
  }

  void measure_in_turns(const Candidate& share, std::vector<Candidate>& finalists) {
    std::vector<Candidate> more = finalists;
    Candidate& candidate = more.emplace_back(share);
    reserved_seconds_ = expected_seconds(more);
    add_workers(candidate);
    const Candidate fed = candidate;
    int rounds = 0;
    // Where its run fails it is in no round, and another share may want the time.
    while (rounds < final_rounds && std::ranges::count(more, fed) > 0 && add_round(more)) ++rounds;
    if (rounds == 0) {
      return leave_out(text_of(fed) + ": no time left for it in turns with the others");
    }
    finalists = more;  // without it where its run failed: a single one would choose it
  }

  /// By more than what its own runs differ by.
  static bool trains_faster(const Row& row, const Row& than) {
    return row.training() > (1.0 + row.spread()) * than.training();
  }

  /// On one batch, as its loaders may be too few yet, or in training, which decides.
  bool is_ahead(const Candidate& candidate, const std::vector<Candidate>& finalists) const {
    const Row* row = measured(candidate);
    if (row == nullptr) return false;
    bool on_one_batch = true;
    bool in_training = true;
    for (const Candidate& finalist : finalists) {
      const Row* than = measured(finalist);
      if (than == nullptr) continue;
      on_one_batch = on_one_batch && row->one_batch() > than->one_batch();
      in_training = in_training && trains_faster(*row, *than);
    }
    return on_one_batch || in_training;
  }

  /// The two fastest placements beside one rank, and the one that trained fastest, where it beats
  /// both by more than its spread: its loaders may do more than one process with as many workers.
  std::vector<Candidate> last_others() const {
    std::vector<const Row*> others;
    for (const Row& row : result_.rows) {
      if (row.measured() && is_other(row.candidate)) others.push_back(&row);
    }
    if (others.empty()) return {};
    std::ranges::stable_sort(others, std::greater<>(), &Row::one_batch);
    const Row& trained_fastest = **std::ranges::max_element(others, {}, &Row::training);
    others.resize(std::min<std::size_t>(others.size(), 2));
    const bool beats_them = std::ranges::all_of(
        others, [&](const Row* row) { return trains_faster(trained_fastest, *row); });
    if (beats_them) others.push_back(&trained_fastest);
    std::vector<Candidate> candidates;
    candidates.reserve(others.size());
    for (const Row* row : others) candidates.push_back(row->candidate);
    return candidates;
  }

  /// As many workers for each as help it. The fastest on one batch goes first: where the time runs
  /// out, it is the one that is worth it, and the others need about as many threads.
  void add_workers(std::vector<Candidate>& finalists) {
    const auto fastest = std::ranges::max_element(
        finalists, {}, [this](const Candidate& candidate) { return one_batch_of(candidate); });
    add_workers(*fastest);
    const int threads = fastest->workers * processes_of(fastest->placement);
    for (Candidate& finalist : finalists) {
      if (&finalist == &*fastest) continue;
      const int workers = threads / processes_of(finalist.placement);
      if (workers <= finalist.workers || take_workers(finalist, workers)) add_workers(finalist);
    }
  }
  void add_workers(Candidate& candidate) {
    int workers = wanted_workers(candidate);
    while (workers > candidate.workers) {
      const int before = candidate.workers;
      if (take_workers(candidate, workers)) {
        give_back_workers(candidate, before);
        workers = wanted_workers(candidate);
      } else if (workers > 2 * before) {
        workers = 2 * before;  // so many did not run, or got in each other's way
      } else {
        return;
      }
    }
  }

  bool has_cores(const Candidate& candidate, int workers) const {
    const int processes = result_.processes_of_host(candidate.placement);
    return workers * processes <= std::max(limits_.cores, limits_.workers * processes);
  }

  /// So many times two that loaders as good as these would keep up, as far as there are cores.
  int wanted_workers(const Candidate& candidate) {
    const Row& row = row_of(candidate);
    if (!row.measured()) return candidate.workers;
    int workers = 2 * candidate.workers;
    while (workers * row.training() < candidate.workers * row.one_batch() &&
           has_cores(candidate, 2 * workers)) {
      workers *= 2;
    }
    return workers;
  }

  bool is_slowed_down(const Row& row) const {
    return row.training() < loader_keeps_up * row.one_batch();
  }

  /// What it trains at with so many workers, measured where it was not tried yet; 0 where it does
  /// not run, or no time is left.
  double training_with(Candidate candidate, int workers) {
    candidate.workers = workers;
    if (!was_tried(candidate)) explore(candidate);
    const Row* row = measured(candidate);
    return row == nullptr ? 0.0 : row->training();
  }

  /// So many, if that is more, where the loader slows it down and they help. Whether it does so.
  bool take_workers(Candidate& candidate, int workers) {
    if (workers <= candidate.workers || !has_cores(candidate, workers)) return false;
    const Row* now = measured(candidate);
    if (now == nullptr || !is_slowed_down(*now)) return false;
    const double wanted = worth_more_workers * now->training();
    if (training_with(candidate, workers) < wanted) return false;
    candidate.workers = workers;
    return true;
  }

  /// Half of those that still do not keep up, and so on, as long as that is no slower, and more
  /// than `least`.
  void give_back_workers(Candidate& candidate, int least) {
    while (candidate.workers / 2 > least && is_slowed_down(row_of(candidate))) {
      const double now = row_of(candidate).training();
      if (worth_more_workers * training_with(candidate, candidate.workers / 2) < now) return;
      candidate.workers /= 2;
    }
  }

  /// Where not even two rounds fit: the slowest others, down to one.
  void leave_out_what_is_too_long(std::vector<Candidate>& finalists) {
    const auto training = [this](const Candidate& candidate) {
      const Row* row = measured(candidate);
      return row == nullptr ? 0.0 : row->training();
    };
    while (finalists.size() > 2 && 2.0 * expected_seconds(finalists) > left()) {
      finalists.erase(
          std::ranges::min_element(finalists.begin() + 1, finalists.end(), {}, training));
    }
  }

  /// Whole rounds alone, so that all are compared by runs of the same moments. One whose run fails
  /// is none of them from there on. Returns how many.
  int repeat(std::vector<Candidate>& finalists) {
    int rounds = 0;
    while (rounds < final_rounds && add_round(finalists)) ++rounds;
    return rounds;
  }

  bool add_round(std::vector<Candidate>& finalists) {
    if (!is_time_for_round(finalists) || !measure_round(finalists)) return false;
    has_round_ = true;
    return true;
  }

  /// The first one is tried in less time than it is expected to take: what is left has no better
  /// use.
  bool is_time_for_round(const std::vector<Candidate>& finalists) const {
    return left() >= (has_round_ ? 1.0 : first_round_share) * expected_seconds(finalists);
  }

  /// Whether it came to its end; else none of its runs counts.
  bool measure_round(std::vector<Candidate>& finalists) {
    std::vector<std::pair<Candidate, Rates>> round;
    for (const Candidate& candidate : finalists) {
      if (measured(candidate) == nullptr) continue;
      if (left() <= 0.0) return false;
      const Measurement found = measure(candidate, left());
      if (found.rates) {
        round.emplace_back(candidate, *found.rates);
      } else if (found.timed_out) {
        return false;
      } else {
        leave_out(text_of(candidate) + ": failed in turns with the others: " + found.problem);
        if (!is_other(candidate)) return false;
      }
    }
    std::erase_if(finalists, [&](const Candidate& each) {
      return measured(each) != nullptr &&
             std::ranges::find(round, each, &std::pair<Candidate, Rates>::first) == round.end();
    });
    for (const auto& [candidate, rates] : round) row_of(candidate).final_runs.push_back(rates);
    return true;
  }

  /// Of two others, the one that is faster than one rank in the runs before a single round too,
  /// then the faster one. One rank is the first finalist, so it is known.
  bool beats(std::size_t index, std::size_t other) {
    const auto order = [this](std::size_t each) {
      result_.best_other = each;
      const bool is_chosen = !result_.one_rank || result_.other_is_faster();
      return std::pair(is_chosen, result_.rows[each].training());
    };
    const bool found = order(index) > order(other);
    result_.best_other = other;
    return found;
  }

  void decide(const std::vector<Candidate>& finalists) {
    for (const Candidate& candidate : finalists) {
      const auto index = static_cast<std::size_t>(&row_of(candidate) - result_.rows.data());
      const Row& row = result_.rows[index];
      if (!row.measured()) continue;
      if (!is_other(candidate)) {
        result_.one_rank = index;
      } else if (!result_.best_other || beats(index, *result_.best_other)) {
        result_.best_other = index;
      }
    }
    if (!result_.one_rank && !result_.best_other) {
      input_error("nothing fits the memory: {}", result_.rows.front().problem);
    }
    const bool other = !result_.one_rank || (result_.best_other && result_.other_is_faster());
    result_.choice = other ? *result_.best_other : *result_.one_rank;
  }

  const SearchLimits& limits_;
  const Measure& measure_;
  const Elapsed& elapsed_;
  struct Run {
    Placement placement;
    double seconds;
    double again;  ///< that it would take with its kernels chosen
  };
  std::vector<Run> runs_;
  std::vector<Candidate> out_of_reach_;  // processes with SM shares, for the end
  bool has_round_ = false;               // of finals
  // Once the finals have run: for another round, or none, while nothing is known to need one.
  std::optional<double> reserved_seconds_;
  TuneResult result_;
};

}  // namespace

std::vector<int> rank_counts(const SearchLimits& limits, int devices) {
  std::vector<int> counts;
  for (const int ranks : {2, 4, 8}) {
    if (limits.global_batch % (std::int64_t{ranks} * devices * limits.accumulate) == 0) {
      counts.push_back(ranks);
    }
  }
  return counts;
}

std::vector<int> sm_shares(int processes) {
  std::vector<int> shares;
  for (const double times : {1.0, 1.5, 2.0}) {
    const int percent = static_cast<int>(std::ceil(100.0 * times / processes));
    if (percent < 100) shares.push_back(percent);
  }
  return shares;
}

TuneResult search_placement(const SearchLimits& limits, const Measure& measure,
                            const Elapsed& elapsed) {
  return Search(limits, measure, elapsed).run();
}

}  // namespace tandem
