#include "bench/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/median.h"
#include "layers/convolution/conv_bn.h"

namespace tandem {
namespace {

std::string describe(const Conv2dOptions& conv, const Shape& input) {
  std::string text = fmt::format("{0}x{0}", conv.window.kernel);
  if (conv.window.stride != 1) text += fmt::format("/{}", conv.window.stride);
  if (conv.groups == input.extents().back() && conv.groups > 1) {
    text += " dw";
  } else if (conv.groups > 1) {
    text += fmt::format(" g{}", conv.groups);
  }
  return text;
}

/// The layer's kind with what decides its speed.
std::string describe(const Graph& graph, std::size_t index, bool deferred) {
  const Layer& layer = *graph.nodes()[index].layer;
  const std::vector<Shape> inputs = graph.input_shapes(index, 1);
  std::string text(layer.kind());
  if (const auto* conv = dynamic_cast<const Conv2d*>(&layer)) {
    text += " " + describe(conv->options(), inputs[0]);
  }
  if (const auto* conv = dynamic_cast<const ConvBn*>(&layer)) {
    text += " " + describe(conv->options().conv, inputs[0]);
    if (conv->options().add) text += " add";
    if (conv->options().activation != Activation::none) text += " act";
    if (conv->options().join) text += " join";
    if (deferred) text += " deferred";
  }
  return text;
}

/// The layers without their times, costs of all micro-batches.
std::vector<LayerTime> untimed_layers(const Graph& graph, const StepPlan& plan, int micro_batches) {
  const std::vector<bool> deferred = plan.deferred_norms();
  std::vector<LayerCost> costs = layer_costs(graph, plan.batch(), plan.precision(), deferred);
  std::vector<LayerTime> layers;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    LayerCost& cost = costs[i];
    if (!plan.has_backward(i)) cost.backward_bytes = cost.backward_operations = 0.0;
    for (double* amount : {&cost.forward_bytes, &cost.forward_operations, &cost.backward_bytes,
                           &cost.backward_operations}) {
      *amount *= micro_batches;
    }
    layers.push_back({.name = graph.nodes()[i].name,
                      .what = describe(graph, i, deferred[i]),
                      .output = graph.output_shape(i, plan.batch()).text(),
                      .cost = cost});
  }
  return layers;
}

/// Gives each moment its place, in the order in which a step's come.
class Sorter {
 public:
  Sorter(const StepPlan& plan, StepTimes& times) : plan_(plan), times_(times) {}

  void add(const StepMoment& moment) {
    switch (moment.part) {
      case StepPart::start:
        return;
      case StepPart::input:
        next_ = 0;
        backward_ = false;
        return add_to(StepPhase::input, moment);
      case StepPart::layer:
        return add_layer(moment);
      case StepPart::loss:
        backward_ = true;
        next_ = times_.layers.size();
        return add_to(StepPhase::loss, moment);
      case StepPart::reduction:
        return add_to(StepPhase::communication, moment);
      case StepPart::update:
        return add_to(StepPhase::update, moment);
    }
  }

 private:
  void add_to(StepPhase phase, const StepMoment& moment) {
    times_.phases[static_cast<std::size_t>(phase)] += moment.seconds;
  }

  void add_layer(const StepMoment& moment) {
    if (!backward_) {
      times_.layers.at(next_++).forward_seconds += moment.seconds;
      return add_to(StepPhase::forward, moment);
    }
    do {
      TANDEM_CHECK(next_ > 0, "more moments than layers");
      --next_;
    } while (!plan_.has_backward(next_));
    times_.layers[next_].backward_seconds += moment.seconds;
    add_to(StepPhase::backward, moment);
  }

  const StepPlan& plan_;
  StepTimes& times_;
  std::size_t next_ = 0;  // forward: the layer of the next moment; backward: the one behind it
  bool backward_ = false;
};

}  // namespace

double sum(const PhaseSeconds& phases) {
  return std::accumulate(phases.begin(), phases.end(), 0.0);
}

LayerTime& LayerTime::operator+=(const LayerTime& other) {
  count += other.count;
  forward_seconds += other.forward_seconds;
  backward_seconds += other.backward_seconds;
  cost.forward_bytes += other.cost.forward_bytes;
  cost.backward_bytes += other.cost.backward_bytes;
  cost.forward_operations += other.cost.forward_operations;
  cost.backward_operations += other.cost.backward_operations;
  if (floor_seconds && other.floor_seconds) *floor_seconds += *other.floor_seconds;
  return *this;
}

std::vector<StepMoment> median_moments(const std::vector<std::vector<StepMoment>>& steps) {
  TANDEM_CHECK(!steps.empty(), "no step was recorded");
  std::vector<StepMoment> medians = steps.front();
  std::vector<double> seconds(steps.size());
  for (std::size_t m = 0; m < medians.size(); ++m) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      TANDEM_CHECK(steps[s].size() == medians.size() && steps[s][m].part == medians[m].part,
                   "steps differ in their moments");
      seconds[s] = steps[s][m].seconds;
    }
    medians[m].seconds = median(seconds);
  }
  return medians;
}

StepTimes sort_moments(const Graph& graph, const StepPlan& plan, int micro_batches,
                       std::span<const StepMoment> moments) {
  StepTimes times{.layers = untimed_layers(graph, plan, micro_batches)};
  Sorter sorter(plan, times);
  for (const StepMoment& moment : moments) sorter.add(moment);
  return times;
}

void set_floors(StepTimes& times, const Ceilings& ceilings, Precision precision) {
  const std::optional<double> operations_rate = ceilings.operations(precision);
  if (!ceilings.bytes_per_second || !operations_rate) return;
  const auto least = [&](double bytes, double operations) {
    return std::max(bytes / *ceilings.bytes_per_second, operations / *operations_rate);
  };
  for (LayerTime& layer : times.layers) {
    const LayerCost& cost = layer.cost;
    layer.floor_seconds = least(cost.forward_bytes, cost.forward_operations) +
                          least(cost.backward_bytes, cost.backward_operations);
  }
}

std::vector<LayerTime> by_kind(std::span<const LayerTime> layers) {
  std::vector<LayerTime> kinds;
  for (const LayerTime& layer : layers) {
    const auto found = std::ranges::find(kinds, layer.what, &LayerTime::what);
    if (found == kinds.end()) {
      kinds.push_back(layer);
      kinds.back().name.clear();
      kinds.back().output.clear();
    } else {
      *found += layer;
    }
  }
  std::ranges::stable_sort(kinds, std::greater<>(), &LayerTime::seconds);
  return kinds;
}

}  // namespace tandem
