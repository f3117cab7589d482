#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/placement/placement.h"

namespace tandem {

/// One way to run a config at its global batch.
struct Candidate {
  Placement placement{};
  int workers = 1;  ///< data.workers of each process

  bool operator==(const Candidate&) const = default;
};

/// "4 processes of 50 %, 2 workers each", "one rank, 1 worker".
std::string text_of(const Candidate& candidate);

/// Processes of one device.
int processes_of(const Placement& placement);

/// What one run of a candidate measured; rates are images a second over all devices.
struct Rates {
  double training = 0.0;   ///< with the loader, as training does it
  double one_batch = 0.0;  ///< the same batch again and again: what the loader could not slow down
  double loader = 0.0;     ///< with nothing else to do
  /// How far apart the stretches of this run's training were, as a share of their median.
  double range = 0.0;
  std::optional<double> device_bytes{};  ///< in use on a GPU
  bool borrowed_kernels = false;         ///< some were the whole GPU's; its own may be faster
};

/// What became of one run of a candidate.
struct Measurement {
  std::optional<Rates> rates{};  ///< absent where it did not run to its end
  std::string problem{};         ///< why, in one line
  bool does_not_fit = false;     ///< the problem is memory
  bool timed_out = false;        ///< the problem is that it was ended for taking too long
  /// Of the time that it took, for the model and its plan; most of it for choosing kernels, where
  /// they are not kept yet.
  double plan_seconds = 0.0;

  // Facts of the run, the same for all candidates; meant where there are rates.
  std::string device{};  ///< "NVIDIA H200", or the CPU's model
  int devices = 1;       ///< GPUs, or hosts whose CPUs compute
  int hosts = 1;
  bool on_gpus = false;
};

/// A candidate with everything measured of it.
struct Row {
  Candidate candidate{};
  std::vector<Rates> runs{};
  /// Of runs alternating with those of the other finalists: where there are any, they are what
  /// counts.
  std::vector<Rates> final_runs{};
  std::string problem{};
  bool does_not_fit = false;
  bool timed_out = false;

  bool measured() const { return !runs.empty() || !final_runs.empty(); }
  const std::vector<Rates>& counted() const { return final_runs.empty() ? runs : final_runs; }
  /// Medians over the runs that count.
  double training() const;
  double one_batch() const;
  /// Of `runs`, though others count.
  double first_training() const;
  /// Least and most of them.
  double least_training() const;
  double most_training() const;
  /// How far apart they are as a share of the median; of a single run, how far its stretches were.
  double spread() const;
  /// Whether one of the runs that count had borrowed kernels.
  bool borrowed_kernels() const;
};

}  // namespace tandem
