#include "bench/bench_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {
namespace {

constexpr const char* unavailable = "unavailable";

double milliseconds(double seconds) { return 1e3 * seconds; }

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20U));
}

/// In the largest unit of thousands that leaves at least 1.
std::string rate_text(std::optional<double> per_second, const char* unit) {
  if (!per_second) return unavailable;
  double value = *per_second * 1e-9;
  const char* prefix = "G";
  if (value >= 1000.0) {
    value *= 1e-3;
    prefix = "T";
  }
  return fmt::format("{:.{}f} {}{}", value, value < 10.0 ? 2 : value < 100.0 ? 1 : 0, prefix, unit);
}

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100.0 * *share) : unavailable;
}

/// " (38 % of the ceiling)", or nothing without one.
std::string share_text(double rate, std::optional<double> ceiling) {
  return ceiling ? fmt::format(" ({:.0f} % of the ceiling)", 100.0 * rate / *ceiling) : "";
}

std::string heading(const BenchResult& result) {
  const std::string ranks =
      rank_count_text(static_cast<int>(result.ranks.size()), result.folded_ranks);
  return fmt::format(
      "{}, {} on {} of {}, global batch {} (micro-batches of {}{})\n"
      "start: device {:.2f} s, data {:.2f} s, model and plan {:.2f} s, first two steps {:.2f} s\n",
      result.model, name_of(result.precision), ranks, result.device, result.global_batch,
      result.micro_batch / result.folded_ranks, result.folded_ranks == 1 ? "" : " a rank",
      result.device_seconds, result.data_seconds, result.model_seconds, result.first_steps_seconds);
}

std::string rate_row(const BenchResult& result, const char* name, const StepRate& rate) {
  return fmt::format("{:<22} {:>11.1f} {:>11.3f}   {:.3f} to {:.3f}\n", name,
                     result.images_per_second(rate), milliseconds(rate.seconds),
                     milliseconds(rate.least_seconds), milliseconds(rate.most_seconds));
}

/// What was measured beside others is worth a word; the kernel always takes a little.
std::string others_text(const BenchResult& result) {
  constexpr double little = 0.05;
  const std::optional<double> others = result.others_share();
  if (!others || *others < little) return "";
  return fmt::format(
      "others than these ranks had {} of this host's processors meanwhile: an idle host may be "
      "faster\n",
      percent(others));
}

std::string throughput(const BenchResult& result) {
  std::string text =
      fmt::format("\n{:<22} {:>11} {:>11}   {}\n", "", "images/s", "ms a step", "range");
  text += rate_row(result, "step on one batch", result.alone);
  text += rate_row(result, "step with the loader", result.with_loader);
  text += fmt::format("{:<22} {:>11.1f}\n", "loader alone", result.loader_images_per_second());
  text += fmt::format("waiting for data: {:.3f} ms a step ({:.1f} %)\n",
                      milliseconds(result.data_wait_seconds()),
                      100.0 * result.data_wait_seconds() / result.with_loader.seconds);
  return text + others_text(result);
}

std::string phases(const BenchResult& result) {
  const PhaseSeconds mean = result.mean_phases();
  const PhaseSeconds longest = result.longest_phases();
  const bool several = result.ranks.size() > 1;
  const double all = sum(mean);
  std::string text = fmt::format("\n{:<22} {:>11} {:>11}{}\n", "phase", "ms", "share",
                                 several ? "   longest on a rank" : "");
  for (std::size_t p = 0; p < mean.size(); ++p) {
    text += fmt::format("{:<22} {:>11.3f} {:>9.1f} %", phase_names[p], milliseconds(mean[p]),
                        100.0 * mean[p] / all);
    text += several ? fmt::format("   {:>17.3f}\n", milliseconds(longest[p])) : "\n";
  }
  text += fmt::format("{:<22} {:>11.3f}\n", "sum", milliseconds(all));
  if (result.updates_in_backward) {
    text +=
        fmt::format("(weights are updated within backward; {} = false tells the update apart)\n",
                    several ? "parallel.sharded_update" : "train.update_in_backward");
  }
  if (result.times.recording_seconds > 0.0) {
    text += fmt::format("({:.2f} us for recording a moment are taken off each)\n",
                        1e6 * result.times.recording_seconds);
  }
  return text;
}

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

/// The layers' table: its columns' units suit the device.
class LayerTable {
 public:
  explicit LayerTable(const BenchResult& result)
      : all_(sum(result.times.phases)),
        tera_(ratio(result.operations(), result.alone.seconds) >= 1e12) {}

  std::string heading(const char* first) const {
    return fmt::format("\n{:<48} {:>9} {:>9} {:>7} {:>8} {:>8} {:>9} {:>5}\n", first, "fwd ms",
                       "bwd ms", "share", tera_ ? "TFLOP/s" : "GFLOP/s", "GB/s", "floor ms", "x");
  }

  std::string row(const std::string& first, const LayerTime& layer) const {
    const double seconds = layer.seconds();
    std::string text = fmt::format(
        "{:<48.48} {:>9.3f} {:>9.3f} {:>5.1f} % {:>8.1f} {:>8.1f}", first,
        milliseconds(layer.forward_seconds), milliseconds(layer.backward_seconds),
        100.0 * ratio(seconds, all_), (tera_ ? 1e-12 : 1e-9) * ratio(layer.operations(), seconds),
        1e-9 * ratio(layer.bytes(), seconds));
    if (layer.floor_seconds) {
      text += fmt::format(" {:>9.3f} {:>5.1f}", milliseconds(*layer.floor_seconds),
                          ratio(seconds, *layer.floor_seconds));
    }
    return text + "\n";
  }

 private:
  double all_;  // seconds of the step
  bool tera_;   // operations in units of 1e12
};

std::string layers(const BenchResult& result, bool every_layer) {
  const LayerTable table(result);
  std::string text = table.heading("layers of a kind");
  for (const LayerTime& kind : by_kind(result.times.layers)) {
    text += table.row(fmt::format("{:>4} {}", kind.count, kind.what), kind);
  }
  if (every_layer) {
    text += table.heading("layer");
    for (const LayerTime& layer : result.times.layers) {
      text += table.row(fmt::format("{} {} {}", layer.name, layer.what, layer.output), layer);
    }
  }
  if (result.side_layers > 0) {
    text += fmt::format(
        "({} layers compute their weight gradients beside others, which is not in their times; "
        "train.side_stream = \"never\" tells them)\n",
        result.side_layers);
  }
  if (result.updates_in_backward && result.side_layers == 0) {
    text +=
        "(where a layer completes a bucket of gradients, its time has the bucket's update in it)\n";
  }
  return text;
}

/// Of what a plan is.
const char* carrier(const BenchResult& result) {
  return result.folded_ranks == 1 ? "rank" : "process";
}

std::string rates(const BenchResult& result) {
  const std::optional<double> product = result.ceilings.operations(result.precision);
  const double operations = result.operations() / result.alone.seconds;
  const double bytes = result.bytes() / result.alone.seconds;
  return fmt::format(
      "\nachieved by a {}: {}{}, {}{} by the least bytes that its layers must move\n"
      "ceilings: {} product {}, copy {}\n",
      carrier(result), rate_text(operations, "FLOP/s"), share_text(operations, product),
      rate_text(bytes, "B/s"), share_text(bytes, result.ceilings.bytes_per_second),
      name_of(result.precision), rate_text(product, "FLOP/s"),
      rate_text(result.ceilings.bytes_per_second, "B/s"));
}

std::string memory(const BenchResult& result) {
  return fmt::format("memory of a {}: state {}, activations {}{}, process {}\n", carrier(result),
                     mebibytes(result.state_bytes), mebibytes(result.activation_bytes),
                     result.device_bytes
                         ? fmt::format(", in use on the GPU {}", mebibytes(*result.device_bytes))
                         : std::string(),
                     mebibytes(result.process_bytes));
}

std::string gpu(const BenchResult& result) {
  if (!result.gpu) return {};
  const std::optional<double>& joules = result.joules_per_1000_images;
  return fmt::format(
      "GPUs: multiprocessors at work {}, occupancy {}, tensor pipes {}, memory bandwidth {}, "
      "energy of 1,000 images {}\n",
      percent(result.gpu->sm_activity), percent(result.gpu->sm_occupancy),
      percent(result.gpu->tensor_activity), percent(result.gpu->dram_activity),
      joules ? fmt::format("{:.2f} J", *joules) : unavailable);
}

}  // namespace

std::string bench_text(const BenchResult& result, bool every_layer) {
  std::string text = heading(result) + throughput(result);
  if (!result.times.layers.empty()) {
    text += phases(result) + layers(result, every_layer) + rates(result);
  }
  return text + memory(result) + gpu(result);
}

}  // namespace tandem
