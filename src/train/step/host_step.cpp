#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "device/trace_range.h"
#include "optim/gradient_norm.h"
#include "tensor/finite.h"
#include "train/step/non_finite.h"
#include "train/step/parameter_groups.h"
#include "train/step/step_runner.h"

namespace tandem {
namespace {

/// Steps on the CPU: everything is done when a call returns.
class HostStep final : public StepRunner {
 public:
  explicit HostStep(const StepParts& parts)
      : parts_(parts),
        accumulate_(parts.config.accumulate),
        clip_norm_(parts.config.optimizer.clip_norm),
        gradient_norm_(parts.context, parameter_groups(parts.config.optimizer, parts.store)) {}

  StepResult step(const NextBatch& next_batch, float learning_rate, bool stop_requested) override {
    const TraceRange range("step");
    tell(StepPart::start);
    LossSums mine;
    for (int micro = 0; micro < accumulate_; ++micro) {
      const Batch& batch = next_batch();
      batch_ = &batch;
      const Targets targets{.labels = batch.labels,
                            .second_labels = batch.second_labels,
                            .weights = batch.label_weights};
      tell(StepPart::input);
      mine += parts_.plan.forward(batch.images, targets, batch.valid, random_of(micro));
      tell(StepPart::loss);
      if (!std::isfinite(mine.loss)) keep_failing(batch, micro);
      const bool last = micro + 1 == accumulate_;
      if (last) begin_reduction(mine, stop_requested);
      backward(micro > 0, last);
    }
    return finish_step(learning_rate);
  }

  StepResult settle() override { return {}; }

  void observe(StepObserver* observer) override { observer_ = observer; }

  std::string explain_non_finite_loss() override {
    const bool mine = !failing_images_.empty();
    const Shape& shape = batch_->images.shape();
    const Tensor images = mine ? Tensor(failing_images_.data(), shape) : batch_->images;
    const std::optional<std::string> layer =
        parts_.plan.first_non_finite_layer(images, random_of(failing_micro_));
    if (!mine || !failing_weights_.empty()) return failing_weights_;
    const Communicator& ranks = parts_.communicator;
    return non_finite_cause(all_finite(images), layer, ranks.size() > 1 ? ranks.rank() : -1);
  }

 private:
  /// Sums that travel beside the gradients: loss, samples, top1, top5, stop.
  using Statistics = std::vector<float>;

  void tell(StepPart part) const {
    if (observer_ != nullptr) observer_->ended(part);
  }

  StepRandom random_of(int micro) const {
    return step_random(parts_, parts_.optimizer.steps_taken(), micro);
  }

  void begin_reduction(const LossSums& mine, bool stop_requested) {
    statistics_ = {static_cast<float>(mine.loss), static_cast<float>(mine.samples),
                   static_cast<float>(mine.top1), static_cast<float>(mine.top5),
                   stop_requested ? 1.0F : 0.0F};
    const Tensor tensor(statistics_.data(), {static_cast<std::int64_t>(statistics_.size())});
    statistics_request_ =
        parts_.communicator.all_reduce_async(tensor, ReduceOp::sum, statistics_label);
    parts_.bucketer.begin_step();
  }

  void backward(bool accumulate, bool last) {
    parts_.plan.backward(accumulate, [&](std::span<const std::size_t> parameters) {
      if (!last) return;
      for (const std::size_t parameter : parameters) parts_.bucketer.ready(parameter);
      parts_.bucketer.progress();
    });
  }

  StepResult finish_step(float learning_rate) {
    parts_.bucketer.finish();
    statistics_request_->wait();
    tell(StepPart::reduction);
    if (!std::isfinite(statistics_[0])) {
      StepResult failed = result({});
      failed.failed_step = parts_.optimizer.steps_taken() + 1;
      return failed;
    }
    const std::optional<double> norm = update(learning_rate);
    tell(StepPart::update);
    return result(norm);
  }

  /// Returns the gradient's norm, where it is clipped.
  std::optional<double> update(float learning_rate) {
    const TraceRange range("update");
    // Each micro-batch's gradient is of its own mean; the step's is of the mean over all of them.
    const auto parts = static_cast<float>(parts_.communicator.size() * accumulate_);
    UpdateSettings settings{.learning_rate = learning_rate, .gradient_scale = 1.0F / parts};
    std::optional<double> norm;
    const Tensor gradients = parts_.bucketer.sums();
    if (clip_norm_ > 0.0) {
      norm = gradient_norm_.measure(gradients) / static_cast<double>(parts);
      settings.gradient_scale *= static_cast<float>(clip_factor(*norm, clip_norm_));
    }
    parts_.optimizer.step(parts_.store.trained_values(), gradients, settings);
    if (parts_.shared != nullptr) parts_.shared->wait_for_each_other();
    if (parts_.average != nullptr) {
      parts_.average->update(parts_.store, parts_.optimizer.steps_taken());
    }
    return norm;
  }

  StepResult result(std::optional<double> norm) {
    const auto count = [&](std::size_t i) { return static_cast<std::int64_t>(statistics_[i]); };
    return {.steps = 1,
            .sums = {.loss = static_cast<double>(statistics_[0]),
                     .samples = count(1),
                     .top1 = count(2),
                     .top5 = count(3)},
            .stop = statistics_[4] > 0.0F,
            .gradient_norm = norm,
            .exposed_seconds = parts_.bucketer.take_stats().exposed_seconds.value()};
  }

  void keep_failing(const Batch& batch, int micro) {
    if (!failing_images_.empty()) return;
    const std::span<const float> images = batch.images.span<float>();
    failing_images_.assign(images.begin(), images.end());
    failing_micro_ = micro;
    // Now, while the gradients of the step before are there: until its own first backward pass.
    failing_weights_ = non_finite_weights(parts_.store, parts_.optimizer.steps_taken(),
                                          micro == 0 ? parts_.bucketer.sums() : Tensor());
  }

  StepParts parts_;
  int accumulate_;
  double clip_norm_;
  GradientNorm gradient_norm_;
  Statistics statistics_;
  std::unique_ptr<Request> statistics_request_;
  StepObserver* observer_ = nullptr;

  const Batch* batch_ = nullptr;       // the last one
  std::vector<float> failing_images_;  // of this rank's first batch whose loss is not finite
  int failing_micro_ = 0;
  std::string failing_weights_;  // what was wrong with the weights before that batch
};

}  // namespace

StepResult& StepResult::operator+=(const StepResult& later) {
  steps += later.steps;
  sums += later.sums;
  stop = stop || later.stop;
  if (later.gradient_norm) gradient_norm = later.gradient_norm;
  exposed_seconds += later.exposed_seconds;
  if (failed_step == 0) failed_step = later.failed_step;
  return *this;
}

StepRandom step_random(const StepParts& parts, std::int64_t steps, int micro) {
  const std::int64_t world = parts.communicator.size();
  const std::int64_t part = (steps * parts.config.accumulate + micro) * world +
                            static_cast<std::int64_t>(parts.communicator.rank());
  return {.seed = parts.config.seed,
          .first_sample = static_cast<std::uint64_t>(part * parts.plan.batch())};
}

std::unique_ptr<StepRunner> make_step_runner(CpuContext& /*context*/, const StepParts& parts) {
  return std::make_unique<HostStep>(parts);
}

}  // namespace tandem
