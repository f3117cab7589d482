#include "bench/bench_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/host_name.h"
#include "base/median.h"
#include "device/host_load.h"
#include "device/kernel_choices.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "train/fault_places.h"
#include "train/gpu_use.h"
#include "train/run_parts.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double between(Clock::time_point first, Clock::time_point last) {
  return std::chrono::duration<double>(last - first).count();
}

std::size_t peak_process_bytes() {
  rusage usage{};
  TANDEM_CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage failed");
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

class Bench {
 public:
  Bench(const RunConfig& config, const BenchOptions& options, Communicator& communicator)
      : config_(config),
        options_(options),
        communicator_(communicator),
        parts_(config, communicator),
        gpu_use_(communicator, device_uuid(parts_.context)) {}

  BenchResult run() {
    try {
      measure();
    } catch (const Error&) {
      rethrow_with_places(parts_.places, [] { return FaultNotes{}; });
    }
    return std::move(result_);
  }

 private:
  using Next = std::function<const Batch*()>;

  static constexpr int stretches = 5;
  static constexpr int warm_up = 3;  // steps

  void measure() {
    describe();
    parts_.loader.start(0);
    parts_.replica.broadcast_from_root();
    measure_steps();
    result_.device_bytes = device_bytes_in_use(parts_.context);
    result_.process_bytes = peak_process_bytes();
    if (!options_.rates_only) {
      communicator_.barrier();
      result_.ceilings = measure_ceilings(parts_.context);
      set_floors(result_.times, result_.ceilings, config_.precision);
    }
    gather();
  }

  void measure_steps() {
    parts_.heartbeat.begin_phase();
    result_.first_steps_seconds = stretch([this] { return loaded(); }, 2);
    begin_load();
    measure_with_loader();
    measure_alone();
    end_load();
    if (!options_.rates_only) record_phases();
    measure_loader();
  }

  void describe() {
    result_.model = parts_.replica.graph().name();
    result_.device = device_text(parts_.context);
    result_.communicator =
        std::string(parts_.reduction ? parts_.reduction->name() : communicator_.name());
    result_.devices = parts_.places.devices();
    result_.hosts = parts_.places.hosts();
    result_.precision = config_.precision;
    result_.threads = parts_.threads();
    result_.global_batch = config_.global_batch;
    result_.micro_batch = parts_.sampler.micro_batch();
    result_.folded_ranks = config_.folded_ranks;
    result_.accumulate = config_.accumulate;
    result_.device_seconds = between(parts_.began, parts_.device_ready);
    result_.data_seconds = between(parts_.device_ready, parts_.data_ready);
    result_.model_seconds = between(parts_.data_ready, parts_.model_ready);
    const KernelChoices* const choices = kernel_choices(parts_.context);
    result_.borrowed_kernels = choices == nullptr ? 0 : choices->borrowed();
    result_.state_bytes = parts_.replica.state_bytes();
    result_.activation_bytes = parts_.replica.plan().activation_bytes();
    result_.side_layers = parts_.replica.plan().side_layers();
    result_.updates_in_backward = parts_.replica.updates_in_backward();
  }

  const Batch* loaded() {
    resident_ = parts_.loader.next();
    TANDEM_CHECK(resident_ != nullptr, "the training data ended");
    return resident_;
  }

  /// Seconds that so many steps take, from idle to idle. The rate of 0 leaves the weights alone.
  double stretch(const Next& next, std::int64_t steps) {
    const Clock::time_point start = Clock::now();
    StepResult found;
    steps_ += steps;
    for (std::int64_t i = 0; i < steps && found.failed_step == 0; ++i) {
      found += parts_.replica.step([&]() -> const Batch& { return *next(); }, 0.0F, false);
    }
    found += parts_.replica.settle();
    if (found.failed_step != 0) {
      input_error("the loss of the model as it starts is not finite: {}; check the data",
                  parts_.replica.explain_non_finite_loss());
    }
    return between(start, Clock::now());
  }

  /// As many steps as take `seconds`, as rank 0 says: each is a collective. Tried with more and
  /// more of them, for a few short ones last little longer than the way to a device and back.
  std::int64_t steps_in(double seconds, const Next& next) {
    for (std::int64_t tried = warm_up;; tried *= 4) {
      const double took = stretch(next, tried);
      std::int64_t steps = 0;  // not enough tried
      if (took >= 0.1 * seconds) {
        const auto wanted = static_cast<std::int64_t>(seconds / took * static_cast<double>(tried));
        steps = std::clamp<std::int64_t>(wanted, 1, 1'000'000);
      }
      communicator_.broadcast(Tensor(&steps, {1}, DType::i64), 0);
      if (steps > 0) return steps;
    }
  }

  /// `waits`: gets the seconds of a step that each stretch waited for data.
  StepRate rate(const Next& next, std::vector<double>* waits = nullptr) {
    const std::int64_t steps = steps_in(options_.seconds / stretches, next);
    const auto a_step = [&](double all) { return all / static_cast<double>(steps); };
    std::vector<double> seconds(stretches);
    for (double& each : seconds) {
      const double before = parts_.loader.wait_seconds();
      each = a_step(stretch(next, steps));
      if (waits != nullptr) waits->push_back(a_step(parts_.loader.wait_seconds() - before));
    }
    return {.seconds = median(seconds),
            .least_seconds = std::ranges::min(seconds),
            .most_seconds = std::ranges::max(seconds),
            .steps = steps * stretches};
  }

  void measure_with_loader() {
    // What is decoded already would flatter it.
    stretch([this] { return loaded(); }, config_.data.prefetch / config_.accumulate + 1);
    std::vector<double> waits;
    result_.with_loader = rate([this] { return loaded(); }, &waits);
    mine_.data_wait_seconds = median(waits);
  }

  void measure_alone() {
    const Next next = [this] { return resident_; };
    // Else the GPU's counters would tell of steps that waited for the loader too.
    if (gpu_use_.on_gpus()) stretch(next, steps_in(GpuUse::lag_seconds, next));
    gpu_use_.begin();
    const std::int64_t before = steps_;
    result_.alone = rate(next);
    const std::int64_t images = (steps_ - before) * config_.global_batch;
    if (const auto told = gpu_use_.end(images)) result_.gpu = told->activity;
    if (!result_.gpu || !result_.gpu->energy_joules) return;
    result_.joules_per_1000_images =
        1000.0 * *result_.gpu->energy_joules / static_cast<double>(images);
  }

  void begin_load() {
    mine_.host = hash_text(host_name());
    mine_.host_processors = host_processors();
    load_began_ = Clock::now();
    mine_.busy_seconds = process_busy_seconds();
    mine_.host_busy_seconds = host_busy_seconds().value_or(-1.0);
  }

  void end_load() {
    mine_.busy_seconds = process_busy_seconds() - mine_.busy_seconds;
    const std::optional<double> now = host_busy_seconds();
    const bool known = now && mine_.host_busy_seconds >= 0.0;
    mine_.host_busy_seconds = known ? *now - mine_.host_busy_seconds : -1.0;
    mine_.measured_seconds = between(load_began_, Clock::now());
  }

  void record_phases() {
    constexpr int most_steps = 15;
    const std::size_t layers = parts_.replica.graph().nodes().size();
    const std::unique_ptr<StepRecorder> recorder = make_step_recorder(
        parts_.context, 3 + static_cast<std::size_t>(config_.accumulate) * (2 + 2 * layers));
    parts_.replica.observe(recorder.get());
    const Next next = [this] { return resident_; };
    stretch(next, 1);  // the first launch of a captured step is slower
    const std::int64_t steps = std::clamp<std::int64_t>(result_.alone.steps, 3, most_steps);
    std::vector<std::vector<StepMoment>> recorded;
    for (std::int64_t i = 0; i < steps; ++i) {
      stretch(next, 1);
      recorded.push_back(recorder->last_step());
    }
    parts_.replica.observe(nullptr);
    result_.times = sort_moments(parts_.replica.graph(), parts_.replica.plan(), config_.accumulate,
                                 median_moments(recorded));
    result_.times.recording_seconds = recorder->recording_seconds();
    mine_.phases = result_.times.phases;
  }

  /// With nothing else to do, after what is decoded already.
  void measure_loader() {
    communicator_.barrier();
    for (int i = 0; i <= config_.data.prefetch; ++i) loaded();
    const Clock::time_point start = Clock::now();
    std::int64_t batches = 0;
    do {
      loaded();
      ++batches;
    } while (between(start, Clock::now()) < 0.5 * options_.seconds);
    mine_.loader_images_per_second =
        static_cast<double>(batches * result_.micro_batch) / between(start, Clock::now());
  }

  void gather() {
    static_assert(std::is_trivially_copyable_v<RankMeasures>);
    const std::int64_t size = communicator_.rank() == 0 ? communicator_.size() : 0;
    result_.ranks.resize(static_cast<std::size_t>(size));
    communicator_.gather(
        Tensor(&mine_, {sizeof(RankMeasures)}, DType::u8),
        size > 0 ? Tensor(result_.ranks.data(), {size, sizeof(RankMeasures)}, DType::u8) : Tensor(),
        0);
  }

  const RunConfig& config_;
  const BenchOptions& options_;
  Communicator& communicator_;
  RunParts parts_;
  GpuUse gpu_use_;
  std::int64_t steps_ = 0;           // of all stretches
  const Batch* resident_ = nullptr;  // the loader's last batch
  Clock::time_point load_began_{};
  RankMeasures mine_;
  BenchResult result_;
};

}  // namespace

double BenchResult::loader_images_per_second() const {
  double total = 0.0;
  for (const RankMeasures& rank : ranks) total += rank.loader_images_per_second;
  return total;
}

std::optional<double> BenchResult::others_share() const {
  const RankMeasures& first = ranks.front();
  const double all = first.measured_seconds * first.host_processors;
  if (first.host_busy_seconds < 0.0 || all <= 0.0) return std::nullopt;
  double others = first.host_busy_seconds;
  for (const RankMeasures& rank : ranks) {
    if (rank.host == first.host) others -= rank.busy_seconds;
  }
  return std::clamp(others / all, 0.0, 1.0);
}

PhaseSeconds BenchResult::mean_phases() const {
  PhaseSeconds mean{};
  for (const RankMeasures& rank : ranks) {
    for (std::size_t p = 0; p < mean.size(); ++p) {
      mean[p] += rank.phases[p] / static_cast<double>(ranks.size());
    }
  }
  return mean;
}

PhaseSeconds BenchResult::longest_phases() const {
  PhaseSeconds longest{};
  for (const RankMeasures& rank : ranks) {
    for (std::size_t p = 0; p < longest.size(); ++p) {
      longest[p] = std::max(longest[p], rank.phases[p]);
    }
  }
  return longest;
}

double BenchResult::data_wait_seconds() const {
  double total = 0.0;
  for (const RankMeasures& rank : ranks) total += rank.data_wait_seconds;
  return total / static_cast<double>(ranks.size());
}

double BenchResult::operations() const {
  double total = 0.0;
  for (const LayerTime& layer : times.layers) total += layer.operations();
  return total;
}

double BenchResult::bytes() const {
  double total = 0.0;
  for (const LayerTime& layer : times.layers) total += layer.bytes();
  return total;
}

BenchResult run_bench(const RunConfig& config, const BenchOptions& options,
                      Communicator& communicator) {
  communicator.watch_processes();
  return Bench(config, options, communicator).run();
}

}  // namespace tandem
