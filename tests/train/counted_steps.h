#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "parallel/communicator.h"
#include "support/device_calls.h"
#include "train/device_run.h"
#include "train/run_parts.h"

// What the host asks of CUDA while a run's steps go on: for each step the launch of one graph and
// the copies of its batches, and nothing that holds the host up, takes memory or makes anything.

namespace tandem {

/// The steps of a run of these ranks on GPUs, made of the same parts and driven as Trainer does it,
/// with its loader at work.
class CountedSteps {
 public:
  /// Collective.
  CountedSteps(std::vector<std::string> settings, Communicator& communicator)
      : config_(on_gpu(std::move(settings))), parts_(config_, communicator) {
    parts_.replica.broadcast_from_root();
    parts_.loader.start(0);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) note(parts_.replica.step(next_batch_, 0.01F, false));
    note(parts_.replica.settle());
  }

  std::int64_t samples() const { return samples_; }  ///< of all ranks
  const RunConfig& config() const { return config_; }
  const RunParts& parts() const { return parts_; }

 private:
  static RunConfig on_gpu(std::vector<std::string> settings) {
    settings.emplace_back("train.device=\"cuda\"");
    return run_with(settings);
  }
  void note(const StepResult& result) {
    EXPECT_EQ(result.failed_step, 0);
    samples_ += result.sums.samples;
  }

  RunConfig config_;
  RunParts parts_;
  const NextBatch next_batch_ = [this]() -> const Batch& { return *parts_.loader.next(); };
  std::int64_t samples_ = 0;
};

/// How many of these there were; they are no longer among the calls.
inline long take_out(DeviceCalls& calls, const std::vector<std::string>& names) {
  long count = 0;
  for (const std::string& name : names) {
    const auto found = calls.extract(name);
    if (found) count += found.mapped();
  }
  return count;
}

/// Of steps that were captured before.
inline void expect_one_launch_and_the_copies(CountedSteps& run) {
  constexpr int steps = 30;
  const int accumulate = run.config().accumulate;
  const std::int64_t samples = run.samples();
  DeviceCalls calls = device_calls_of([&] { run.run(steps); });
  EXPECT_EQ(run.samples() - samples, steps * run.config().global_batch);
  // A step's end is asked for, as often as it takes, once the following step is launched.
  EXPECT_GE(take_out(calls, {"cudaEventQuery"}), steps);
  // Meanwhile NCCL is asked, where there is one, whether it has met an error. It is asked for
  // nothing else: what it sums is in the graph.
  (void)take_out(calls, {"ncclCommGetAsyncError"});
  // A micro-batch travels to the device, and from there to where the step reads it; what lay there
  // is kept. Before it travels the host makes sure that an earlier one has left its memory. With
  // one micro-batch a step, that was of a step whose end has been seen, so that the host never
  // waits. With several, all but the first ask for one of the step under way, whose end has not.
  if (accumulate > 1) (void)take_out(calls, {event_waits});
  const DeviceCalls expected{{"cudaGraphLaunch", steps},
                             {"cudaMemcpyAsync", 3 * steps * accumulate},
                             {"cudaEventSynchronize", steps * accumulate}};
  EXPECT_EQ(calls, expected);
}

}  // namespace tandem
