#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ceilings.h"
#include "bench/step_recorder.h"
#include "graph/graph.h"
#include "graph/layer_cost.h"
#include "graph/step_plan.h"

namespace tandem {

/// The parts of a step that do not overlap.
enum class StepPhase : std::uint8_t { input, forward, loss, backward, communication, update };
constexpr std::array<std::string_view, 6> phase_names{"input",    "forward",       "loss",
                                                      "backward", "communication", "update"};
/// Seconds by phase; communication is what backward did not hide.
using PhaseSeconds = std::array<double, phase_names.size()>;
double sum(const PhaseSeconds& phases);

/// What one layer, or several of a kind, take and do in a step.
struct LayerTime {
  std::string name;
  std::string what;    ///< "conv_bn 3x3/2 dw act"; "deferred" where the reader normalises
  std::string output;  ///< its shape
  int count = 1;       ///< layers in it
  LayerCost cost;
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;
  /// The least that the device's ceilings allow; absent where they were not measured.
  std::optional<double> floor_seconds{};

  double seconds() const { return forward_seconds + backward_seconds; }
  double bytes() const { return cost.forward_bytes + cost.backward_bytes; }
  double operations() const { return cost.forward_operations + cost.backward_operations; }
  LayerTime& operator+=(const LayerTime& other);
};

/// Where the time of a step of one rank goes.
struct StepTimes {
  PhaseSeconds phases{};
  std::vector<LayerTime> layers;  ///< in the model's order
  /// What recording a moment takes, which was taken off each.
  double recording_seconds = 0.0;
};

/// Of several recordings of the same step the median of each moment.
std::vector<StepMoment> median_moments(const std::vector<std::vector<StepMoment>>& steps);

/// Sorts a training step's moments by phase and layer. `micro_batches`: the step's.
StepTimes sort_moments(const Graph& graph, const StepPlan& plan, int micro_batches,
                       std::span<const StepMoment> moments);

/// Sets the layers' floors: their bytes at the ceiling's rate or their operations at the product's,
/// whichever takes longer, forward and backward each.
void set_floors(StepTimes& times, const Ceilings& ceilings, Precision precision);

/// Sums over the layers that are described in the same words, the slowest first; their name is
/// empty.
std::vector<LayerTime> by_kind(std::span<const LayerTime> layers);

}  // namespace tandem
