#include "layer_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/conv_bn.h"

namespace tandem {
namespace {

constexpr int idle_marks = 9;

double median(std::vector<double> values) {
  TANDEM_CHECK(!values.empty(), "nothing was measured");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

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
std::string describe(const Graph& graph, std::size_t index) {
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
  }
  return text;
}

double floor_of(const LayerCost& cost, const Ceilings& ceilings) {
  const auto least = [&](double bytes, double operations) {
    return std::max(bytes / ceilings.bytes_per_second, operations / ceilings.operations_per_second);
  };
  return least(cost.forward_bytes, cost.forward_operations) +
         least(cost.backward_bytes, cost.backward_operations);
}

}  // namespace

LayerTime& LayerTime::operator+=(const LayerTime& other) {
  forward_seconds += other.forward_seconds;
  backward_seconds += other.backward_seconds;
  floor_seconds += other.floor_seconds;
  cost.forward_bytes += other.cost.forward_bytes;
  cost.backward_bytes += other.cost.backward_bytes;
  cost.forward_operations += other.cost.forward_operations;
  cost.backward_operations += other.cost.backward_operations;
  return *this;
}

double StepTimes::seconds() const {
  double sum = loss_seconds + update_seconds;
  for (const LayerTime& layer : layers) sum += layer.seconds();
  return sum;
}

void LayerTimer::mark() {
  if (!recording_) return;
  TANDEM_CHECK(marked_ < events_.size(), "more than {} moments", events_.size());
  events_[marked_++].record(*context_);
}

/// Marks: `idle_marks` with nothing between them, one after each layer, one after the loss, one
/// after each layer's backward pass, one after the update.
void LayerTimer::capture(GpuStep& step) {
  marked_ = 0;
  recording_ = true;
  for (int i = 0; i < idle_marks; ++i) mark();
  step.enqueue_forward();
  mark();
  step.enqueue_backward();
  step.enqueue_update();
  mark();
  recording_ = false;
}

StepTimes LayerTimer::measure(GpuStep& step, const GpuStepOptions& options,
                              const Ceilings& ceilings, int replays) {
  context_ = &step.cuda();
  const Graph& graph = step.graph();
  const std::vector<LayerCost> costs = layer_costs(graph, options.batch, options.precision);
  const std::size_t count = costs.size();
  const auto reached = static_cast<std::size_t>(std::ranges::count_if(costs, &LayerCost::backward));
  // Made before the capture, which forbids much.
  events_ = std::vector<CudaEvent>(idle_marks + count + 1 + reached + 1);
  CudaGraph captured(*context_, [&] { capture(step); });
  TANDEM_CHECK(marked_ == events_.size(), "{} of {} moments", marked_, events_.size());
  std::vector<std::vector<double>> samples(events_.size() - 1);
  for (int i = 0; i < replays; ++i) {
    captured.launch();
    context_->synchronize();
    if (i == 0) continue;  // the first launch uploads the graph
    for (std::size_t e = 0; e + 1 < events_.size(); ++e) {
      samples[e].push_back(events_[e + 1].seconds_since(events_[e]));
    }
  }
  StepTimes times;
  std::vector<double> idle;
  for (std::size_t i = 0; i + 1 < idle_marks; ++i) idle.push_back(median(samples[i]));
  times.event_seconds = median(idle);
  std::size_t at = idle_marks - 1;
  const auto next = [&] { return std::max(0.0, median(samples[at++]) - times.event_seconds); };
  for (std::size_t i = 0; i < count; ++i) {
    times.layers.push_back({.name = graph.nodes()[i].name,
                            .what = describe(graph, i),
                            .output = graph.output_shape(i, options.batch).text(),
                            .cost = costs[i],
                            .forward_seconds = next(),
                            .floor_seconds = floor_of(costs[i], ceilings)});
  }
  times.loss_seconds = next();
  for (std::size_t i = count; i-- > 0;) {
    if (costs[i].backward) times.layers[i].backward_seconds = next();
  }
  times.update_seconds = next();
  return times;
}

namespace {

/// Sums over the layers that are described in the same words.
std::vector<LayerTime> by_kind(const StepTimes& times) {
  std::vector<LayerTime> kinds;
  for (const LayerTime& layer : times.layers) {
    auto found = std::ranges::find(kinds, layer.what, &LayerTime::what);
    if (found == kinds.end()) {
      found =
          kinds.insert(kinds.end(), {.name = "0", .what = layer.what, .output = "", .cost = {}});
    }
    found->name = std::to_string(std::stoi(found->name) + 1);
    *found += layer;
  }
  return kinds;
}

double per_second(double amount, double seconds) { return seconds > 0.0 ? amount / seconds : 0.0; }

std::string row(const LayerTime& layer, double all) {
  const LayerCost& cost = layer.cost;
  const double floor = layer.floor_seconds;
  return fmt::format(
      "{:<30.30} {:<24.24} {:<20.20} {:8.1f} {:8.1f} {:5.1f}% {:8.1f} {:6.0f} {:8.1f} {:6.0f} "
      "{:7.1f} {:8.1f} {:5.2f} {:8.1f}\n",
      layer.name, layer.what, layer.output, 1e6 * layer.forward_seconds,
      1e6 * layer.backward_seconds, 100.0 * layer.seconds() / all, 1e-6 * cost.forward_bytes,
      1e-9 * per_second(cost.forward_bytes, layer.forward_seconds), 1e-6 * cost.backward_bytes,
      1e-9 * per_second(cost.backward_bytes, layer.backward_seconds),
      1e-12 * per_second(cost.forward_operations + cost.backward_operations, layer.seconds()),
      1e6 * floor, per_second(layer.seconds(), floor), 1e6 * (layer.seconds() - floor));
}

std::string heading(std::string_view first) {
  return fmt::format(
      "{:<30} {:<24} {:<20} {:>8} {:>8} {:>6} {:>8} {:>6} {:>8} {:>6} {:>7} {:>8} {:>5} {:>8}\n",
      first, "what", "output", "fwd us", "bwd us", "share", "fwd MB", "GB/s", "bwd MB", "GB/s",
      "TFLOP/s", "floor us", "x", "lost us");
}

std::string rows_of(std::vector<LayerTime> layers, const StepTimes& times, bool by_loss,
                    std::size_t most) {
  const auto key = [&](const LayerTime& layer) {
    return layer.seconds() - (by_loss ? layer.floor_seconds : 0.0);
  };
  std::ranges::stable_sort(layers, std::greater<>(), key);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, layers.size()); ++i) {
    text += row(layers[i], times.seconds());
  }
  if (layers.size() > most) text += fmt::format("... and {} more\n", layers.size() - most);
  return text;
}

}  // namespace

std::string layer_table(const StepTimes& times, bool by_loss, std::size_t rows) {
  LayerTime sum{.name = "all layers", .what = "", .output = "", .cost = {}};
  for (const LayerTime& layer : times.layers) sum += layer;
  std::string text = heading("layer");
  text += rows_of(times.layers, times, by_loss, rows);
  text += "\n" + heading("layers of a kind");
  text += rows_of(by_kind(times), times, by_loss, times.layers.size());
  text += row(sum, times.seconds());
  text += fmt::format(
      "loss {:.1f} us, update {:.1f} us, all {:.1f} us; one recorded moment ({:.2f} us) is "
      "subtracted each time\n",
      1e6 * times.loss_seconds, 1e6 * times.update_seconds, 1e6 * times.seconds(),
      1e6 * times.event_seconds);
  return text;
}

}  // namespace tandem
