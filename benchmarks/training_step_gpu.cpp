// Times whole training steps (forward, backward, optimizer) on one GPU on one fixed batch that lies
// there, as one CUDA graph, and prints lines of JSON. training_step_torch_gpu.py is its
// counterpart, compare_gpu.py runs both. Where the time goes is what `tandem bench` tells.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/median.h"
#include "device/cuda_event.h"
#include "device/gpu_monitor.h"
#include "gpu_step.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  GpuStepOptions step;
  int device = 0;
  int warmup = 5;
  int steps = 0;
  double seconds = 1.0;
  bool wait = false;
  std::string json;
};

/// The step captured whole, and in parts to tell their shares.
class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        context_(CudaContext(options.device)),
        free_before_(cuda().free_bytes()) {
    step_.emplace(context_, options.step);
    // Outside a graph first: kernels are loaded, and errors show where they are.
    step_->enqueue();
    first_loss_ = step_->loss();
    step_->enqueue();
    cuda().synchronize();
    whole_.emplace(cuda(), [this] { step_->enqueue(); });
    forward_.emplace(cuda(), [this] { step_->enqueue_forward(); });
    backward_.emplace(cuda(), [this] { step_->enqueue_backward(); });
    update_.emplace(cuda(), [this] { step_->enqueue_update(); });
    for (int i = 0; i < options.warmup; ++i) whole_->launch();
    cuda().synchronize();
    monitor_.emplace(cuda().device().uuid);
  }

  /// What was prepared and what it takes.
  Json facts() const {
    const std::size_t free = cuda().free_bytes();
    return {{"engine", "tandem"},
            {"model", options_.step.model},
            {"size", options_.step.size},
            {"batch", options_.step.batch},
            {"classes", options_.step.classes},
            {"precision", name_of(options_.step.precision)},
            {"gpu", cuda().device().name},
            {"side_layers", step_->side_layers()},
            {"deferred_norms", step_->deferred_norms()},
            {"plan_seconds", step_->plan_seconds()},
            {"state_bytes", step_->state_bytes()},
            {"activation_bytes", step_->activation_bytes()},
            {"batch_bytes", step_->batch_bytes()},
            {"device_bytes", free_before_ > free ? free_before_ - free : 0}};
  }

  /// Replays in chunks of about 25 ms, each timed by events.
  Json measure(double seconds) {
    const double rough = time_chunk(3);
    const int chunk =
        options_.steps > 0 ? options_.steps : std::clamp(static_cast<int>(0.025 / rough), 1, 1000);
    std::vector<double> step_seconds;
    monitor_->begin();
    for (double spent = 0.0; spent < seconds || step_seconds.size() < 3;) {
      step_seconds.push_back(time_chunk(chunk));
      spent += chunk * step_seconds.back();
    }
    const GpuActivity activity = monitor_->end();
    std::ranges::sort(step_seconds);
    const double middle = median(step_seconds);
    const double loss = step_->loss();
    TANDEM_CHECK(std::isfinite(loss), "the loss is {}", loss);
    const auto batch = static_cast<double>(options_.step.batch);
    const double operations = 6.0 * batch * static_cast<double>(step_->graph().multiply_adds());
    return {{"images_per_second", batch / middle},
            {"milliseconds", 1e3 * middle},
            {"milliseconds_range", {1e3 * step_seconds.front(), 1e3 * step_seconds.back()}},
            {"chunks", step_seconds.size()},
            {"steps", step_seconds.size() * static_cast<std::size_t>(chunk)},
            {"tflops", 1e-12 * operations / middle},
            {"first_loss", first_loss_},
            {"loss", loss},
            {"sm_activity", told(activity.sm_activity)},
            {"sm_occupancy", told(activity.sm_occupancy)},
            {"tensor_activity", told(activity.tensor_activity)},
            {"dram_activity", told(activity.dram_activity)},
            {"energy_joules", told(activity.energy_joules)}};
  }

  /// Medians of the parts, launched in turns as they follow each other in a step.
  Json parts() {
    constexpr int rounds = 15;
    std::vector<std::vector<double>> seconds(3);
    std::vector<CudaEvent> moments(4);
    for (int i = 0; i < rounds; ++i) {
      moments[0].record(cuda());
      int part = 0;
      for (auto* graph : {&forward_, &backward_, &update_}) {
        (*graph)->launch();
        moments[static_cast<std::size_t>(++part)].record(cuda());
      }
      moments.back().synchronize();
      for (std::size_t p = 0; p < 3; ++p) {
        seconds[p].push_back(moments[p + 1].seconds_since(moments[p]));
      }
    }
    const auto milliseconds = [&](std::size_t p) { return 1e3 * median(seconds[p]); };
    return {{"forward_milliseconds", milliseconds(0)},
            {"backward_milliseconds", milliseconds(1)},
            {"update_milliseconds", milliseconds(2)}};
  }

 private:
  CudaContext& cuda() const { return std::get<CudaContext>(context_); }
  static Json told(const std::optional<double>& value) {
    return value ? Json(*value) : Json("unavailable");
  }

  /// Seconds of one step, the mean over `steps` of them.
  double time_chunk(int steps) {
    first_.record(cuda());
    for (int i = 0; i < steps; ++i) whole_->launch();
    last_.record(cuda());
    last_.synchronize();
    return last_.seconds_since(first_) / steps;
  }

  const Options& options_;
  mutable AnyContext context_;
  std::size_t free_before_;
  std::optional<GpuStep> step_;
  std::optional<CudaGraph> whole_;
  std::optional<CudaGraph> forward_;
  std::optional<CudaGraph> backward_;
  std::optional<CudaGraph> update_;
  std::optional<GpuMonitor> monitor_;
  CudaEvent first_;
  CudaEvent last_;
  double first_loss_ = 0.0;
};

void run(const Options& options) {
  std::ofstream file;
  if (!options.json.empty()) {
    file.open(options.json, std::ios::app);
    if (!file) input_error("cannot open {}", options.json);
  }
  const auto tell = [&](const Json& record) {
    std::cout << record.dump() << std::endl;
    if (file.is_open()) file << record.dump() << std::endl;
  };

  Bench bench(options);
  Json facts = bench.facts();
  if (options.wait) {
    tell(facts);
    for (double seconds = 0.0; std::cin >> seconds;) tell(bench.measure(seconds));
    return;
  }
  facts.update(bench.measure(options.seconds));
  facts.update(bench.parts());
  tell(facts);
}

Precision named(const std::string& name) {
  for (const Precision each : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (name == name_of(each)) return each;
  }
  return Precision::fp16;
}

SideWork side_work_named(const std::string& name) {
  if (name == "never") return SideWork::never;
  if (name == "by_size") return SideWork::by_size;
  return name == "always" ? SideWork::always : SideWork::by_timing;
}

NormDeferral norm_deferral_named(const std::string& name) {
  if (name == "never") return NormDeferral::never;
  if (name == "by_size") return NormDeferral::by_size;
  if (name == "memory_only") return NormDeferral::memory_only;
  return name == "always" ? NormDeferral::always : NormDeferral::by_timing;
}

GradientMemory gradient_memory_named(const std::string& name) {
  if (name == "passing") return GradientMemory::passing;
  return name == "lent" ? GradientMemory::lent : GradientMemory::stored;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("model", options.step.model, "A zoo model or a model file")->capture_default_str();
  app.add_option("--size", options.step.size, "Pixels a side")->capture_default_str();
  app.add_option("--classes", options.step.classes, "Classes")->capture_default_str();
  app.add_option("--batch", options.step.batch, "Samples")->capture_default_str();
  app.add_option_function<std::string>(
         "--precision", [&](const std::string& name) { options.step.precision = named(name); },
         "fp32, tf32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->default_str("bf16");
  app.add_option("--device", options.device, "Which CUDA device")->capture_default_str();
  app.add_option("--warmup", options.warmup, "Steps not timed")->capture_default_str();
  app.add_option("--steps", options.steps, "Steps timed at once (default: about 25 ms of them)");
  app.add_option("--seconds", options.seconds, "Time to measure for")->capture_default_str();
  app.add_flag("--wait", options.wait,
               "After preparing, measure once for each number of seconds on standard input");
  app.add_option_function<std::string>(
         "--side-work",
         [&](const std::string& name) { options.step.side_work = side_work_named(name); },
         "Which layers compute weight gradients beside the rest of backward")
      ->check(CLI::IsMember({"by_timing", "by_size", "never", "always"}))
      ->default_str("by_timing");
  app.add_option_function<std::string>(
         "--defer-norm",
         [&](const std::string& name) { options.step.norm_deferral = norm_deferral_named(name); },
         "Which normalisations are left to the layer that reads them")
      ->check(CLI::IsMember({"by_timing", "by_size", "memory_only", "never", "always"}))
      ->default_str("by_timing");
  app.add_option_function<std::string>(
         "--norm-kernels",
         [&](const std::string& name) {
           options.step.norm_kernels =
               name == "by_size" ? NormKernels::by_size : NormKernels::by_timing;
         },
         "How it is chosen whether one kernel normalises a tensor or two")
      ->check(CLI::IsMember({"by_timing", "by_size"}))
      ->default_str("by_timing");
  app.add_option_function<std::string>(
         "--gradients",
         [&](const std::string& name) {
           options.step.gradient_memory = gradient_memory_named(name);
         },
         "Where gradients lie: passing, a bucket at a time; lent, activations in their memory; "
         "stored, by themselves (default: passing, and lent in fp16)")
      ->check(CLI::IsMember({"passing", "lent", "stored"}));
  app.add_option_function<double>(
         "--bucket-mib",
         [&](double mib) {
           options.step.bucket_bytes = static_cast<std::int64_t>(mib * 1024.0 * 1024.0);
         },
         "Of passing gradients")
      ->default_str("4");
  app.add_option("--json", options.json, "A file to append the JSON to");
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  try {
    Options options;
    CLI::App app("Times training steps on a fixed batch on one GPU");
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    run(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
