#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/step_times.h"
#include "device/gpu_monitor.h"
#include "parallel/communicator.h"
#include "train/run_config.h"

namespace tandem {

/// Wall-clock time of one step: the median over several stretches of steps, and their range.
struct StepRate {
  double seconds = 0.0;
  double least_seconds = 0.0;
  double most_seconds = 0.0;
  std::int64_t steps = 0;  ///< measured in all
};

/// What one rank, or one process that carries several, measured of itself.
struct RankMeasures {
  PhaseSeconds phases{};
  double data_wait_seconds = 0.0;  ///< a step, with the loader
  double loader_images_per_second = 0.0;

  std::uint64_t host = 0;           ///< stands for its name
  double measured_seconds = 0.0;    ///< in which steps were measured; and processors' time in it:
  double busy_seconds = 0.0;        ///< of this process
  double host_busy_seconds = -1.0;  ///< of its whole host; below 0: unknown
  int host_processors = 1;
};

/// What `tandem bench` finds out. Times are rank 0's but for `ranks`, which has one for each
/// process.
struct BenchResult {
  std::string model;
  std::string device;
  std::string communicator;
  int devices = 1;  ///< GPUs, or hosts whose CPUs compute
  int hosts = 1;
  Precision precision = Precision::fp32;
  int threads = 0;  ///< of a rank; 0 on a GPU
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;  ///< of a process
  int folded_ranks = 1;          ///< that each process carries
  int accumulate = 1;

  // Start-up: opening the device, the data, making the model with its plan, two steps.
  double device_seconds = 0.0;
  double data_seconds = 0.0;
  double model_seconds = 0.0;
  /// Of a GPU's kernels those that are another's (TANDEM_TUNE=borrow), on the host of rank 0.
  std::size_t borrowed_kernels = 0;
  double first_steps_seconds = 0.0;

  StepRate alone;        ///< one batch again and again
  StepRate with_loader;  ///< as training does it
  std::vector<RankMeasures> ranks;
  StepTimes times;    ///< without layers where rates alone were asked for,
  Ceilings ceilings;  ///< and without these
  /// Of all GPUs while the step ran alone; absent on CPUs and where that was too short to tell.
  std::optional<GpuActivity> gpu{};
  std::optional<double> joules_per_1000_images{};
  /// Of the time of rank 0's host's processors, while steps were measured, what went to others than
  /// the ranks: programs, the kernel, other virtual machines. Absent where the kernel does not
  /// tell.
  std::optional<double> others_share() const;

  std::size_t state_bytes = 0;
  std::size_t activation_bytes = 0;
  std::size_t side_layers = 0;                ///< see StepPlan::side_layers()
  bool updates_in_backward = false;           ///< see Replica::updates_in_backward()
  std::optional<std::size_t> device_bytes{};  ///< in use on the GPU, by whatever runs there
  std::size_t process_bytes = 0;              ///< of the host, at most so far

  bool on_gpus() const { return threads == 0; }
  double images_per_second(const StepRate& rate) const {
    return static_cast<double>(global_batch) / rate.seconds;
  }
  /// Of all ranks' loaders with nothing else to do.
  double loader_images_per_second() const;
  PhaseSeconds mean_phases() const;
  /// By phase, of the rank on which it takes longest.
  PhaseSeconds longest_phases() const;
  double data_wait_seconds() const;  ///< mean over the ranks
  /// Of the products of a process's step, two a multiply-add.
  double operations() const;
  /// The least that the layers of a process's step must move (graph/layer_cost.h).
  double bytes() const;
};

struct BenchOptions {
  /// To measure the step alone for, and again with the loader.
  double seconds = 2.0;
  /// Leaves out the step by phase and layer, and the ceilings, for whoever compares many runs.
  bool rates_only = false;
};

/// Collective. Measures a run's training step without training: the weights stay, nothing is
/// written. On rank 0 the result; empty elsewhere. Processes of ranks that end meanwhile are told
/// (Communicator::watch_processes()).
BenchResult run_bench(const RunConfig& config, const BenchOptions& options,
                      Communicator& communicator);

}  // namespace tandem
