#pragma once

#include <string>
#include <vector>

#include "device/cuda_event.h"
#include "gpu_step.h"
#include "graph/layer_cost.h"

namespace tandem {

/// The rates of a card that floors are computed from: benchmarks/device_ceilings.cu measures them.
struct Ceilings {
  double bytes_per_second = 4.3e12;
  double operations_per_second = 790e12;
};

struct LayerTime {
  std::string name;
  std::string what;    ///< "conv_bn 3x3/2 dw act"
  std::string output;  ///< its shape
  LayerCost cost;
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;
  double floor_seconds = 0.0;  ///< the least that the card's rates allow

  double seconds() const { return forward_seconds + backward_seconds; }
  /// Adds another's times and costs.
  LayerTime& operator+=(const LayerTime& other);
};

/// Where a step's time goes, medians over its replays.
struct StepTimes {
  std::vector<LayerTime> layers;  ///< in the model's order
  double loss_seconds = 0.0;
  double update_seconds = 0.0;
  /// What recording one moment takes, which was subtracted from each of the others.
  double event_seconds = 0.0;

  double seconds() const;
};

/// Times every layer of a step inside one CUDA graph, in which the moments between the layers are
/// recorded: no host and no gaps between launches but the recording's. mark() must be the step's
/// GpuStepOptions::after_layer.
class LayerTimer {
 public:
  /// Marks a moment while a step is being captured; else does nothing.
  void mark();
  StepTimes measure(GpuStep& step, const GpuStepOptions& options, const Ceilings& ceilings,
                    int replays);

 private:
  void capture(GpuStep& step);

  bool recording_ = false;
  CudaContext* context_ = nullptr;
  std::vector<CudaEvent> events_;
  std::size_t marked_ = 0;
};

/// The layers as a table, the slowest first, or those that lose most against their floor; and sums
/// by kind. At most `rows` layers.
std::string layer_table(const StepTimes& times, bool by_loss, std::size_t rows);

}  // namespace tandem
