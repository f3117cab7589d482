#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/cuda_context.h"
#include "parallel/communicator.h"

namespace tandem {

/// Seconds of one operation: of several measurements, the middle one and the extremes.
struct Times {
  double median = 0.0;
  double least = 0.0;
  double most = 0.0;

  /// As members of a JSON object: "median_seconds" and so on.
  std::string json() const;
};

Times summary(std::vector<double> seconds);

/// Of what `enqueue()` enqueues, captured into a graph `repeats` times over, after a first time
/// outside of it. `waiting`: ranks that it waits for.
Times time_in_graphs(CudaContext& gpu, Communicator& waiting, const std::function<void()>& enqueue,
                     int repeats = 20);

}  // namespace tandem
