#include <cuda_runtime_api.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "device/arena.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/device_stopwatch.h"
#include "device/trace_range.h"
#include "layers/add.h"
#include "optim/context_table.h"
#include "optim/step_controller.h"
#include "parallel/stream_watch.h"
#include "tensor/finite.h"
#include "train/step/device_input.h"
#include "train/step/non_finite.h"
#include "train/step/parameter_groups.h"
#include "train/step/step_mailbox.h"
#include "train/step/step_runner.h"

namespace tandem {
namespace {

constexpr std::string_view meeting_label = "the ranks' meeting behind the step";

/// Steps on a CUDA device: everything that one step does with its batch is captured into one graph
/// and launched again and again; what changes it is told, and what it finds it leaves, in a
/// mailbox. The first step runs as it is, so that all code is loaded before the capture.
class CapturedStep final : public StepRunner {
 public:
  CapturedStep(CudaContext& context, const StepParts& parts)
      : context_(context),
        parts_(parts),
        accumulate_(parts.config.accumulate),
        rules_{.clip_norm = parts.config.optimizer.clip_norm,
               .loss_scaling = parts.config.precision == Precision::fp16},
        controller_(parts.context, parameter_groups(parts.config.optimizer, parts.store), rules_),
        statistics_(parts.context, 1, "a step's statistics"),
        micro_sums_(parts.context, 4, "a micro-batch's statistics"),
        meeting_(parts.context, 1, "a word between ranks") {
    const Shape images = with_batch(parts.input, parts.plan.batch());
    images_ = Tensor(nullptr, images, activation_dtype(parts.config.precision));
    image_memory_ = Arena(parts.context, images_.bytes(), "a batch");
    images_ = Tensor(image_memory_.data(), images, images_.dtype());
    for (int micro = 0; micro < accumulate_; ++micro) {
      previous_.emplace_back(parts.context, parts.raw->layout.bytes(), "a batch");
    }
    const auto update = [this](std::size_t bucket) { update_bucket(bucket); };
    if (parts.sharded != nullptr) {
      parts.bucketer.update_shares(parts.sharded->peers(), update);
    } else if (updates_in_backward_) {
      parts.bucketer.update_each(update);
    }
  }

  StepResult step(const NextBatch& next_batch, float learning_rate, bool stop_requested) override {
    const TraceRange range("step");
    bring_batches(next_batch);
    give_order(learning_rate, stop_requested);
    launch();
    done_[mailbox_.place()].record(context_);
    step_of_[mailbox_.place()] = parts_.optimizer.steps_taken() + 1;
    parts_.optimizer.count_step();
    StepResult before = take(1);
    pending_[mailbox_.place()] = true;
    if (before.failed_step != 0) {
      // This step was under way already, and changed nothing either.
      (void)take(0);
      parts_.optimizer.set_steps_taken(before.failed_step - 1);
      failing_is_previous_ = true;
    }
    return before;
  }

  StepResult settle() override {
    StepResult result = take(0);
    // Of a failure that step() has met nothing is left to take.
    if (result.failed_step != 0) failing_is_previous_ = false;
    return result;
  }

  StepResult settle_together() override {
    if (pending_[mailbox_.place()] && waits_) meet();
    return settle();
  }

  void observe(StepObserver* observer) override {
    observer_ = observer;
    graph_.reset();
  }

  std::string explain_non_finite_loss() override {
    // The failing step, and the one that was under way after it, have left gradients of their own.
    std::string weights = non_finite_weights(parts_.store, parts_.optimizer.steps_taken(), {});
    std::string cause;
    for (int micro = 0; micro < accumulate_; ++micro) {
      const RawBatchView batch =
          failing_is_previous_
              ? parts_.raw->layout.view(previous_[static_cast<std::size_t>(micro)].data())
              : input_.current(micro);
      enqueue_input(context_, batch, parts_.raw->spec, images_);
      const StepRandom random = step_random(parts_, parts_.optimizer.steps_taken(), micro);
      const bool finite = all_finite(parts_.context, images_);
      const std::optional<std::string> layer = parts_.plan.first_non_finite_layer(images_, random);
      if (cause.empty() && (layer || !finite)) {
        const Communicator& ranks = parts_.communicator;
        cause = non_finite_cause(finite, layer, ranks.size() > 1 ? ranks.rank() : -1);
      }
    }
    return weights.empty() ? cause : weights;
  }

  std::optional<LossScale> loss_scale() const override {
    if (!rules_.loss_scaling) return std::nullopt;
    return controller_.state().loss_scale;
  }
  void set_loss_scale(const LossScale& scale) override {
    if (!rules_.loss_scaling) return;
    StepState state = controller_.state();
    state.loss_scale = scale;
    controller_.set_state(state);
  }

 private:
  StepControl* control() const { return controller_.control(); }
  StepStatistics& on_device() const { return statistics_.rows()[0]; }
  /// What is summed over the ranks.
  Tensor statistics() const { return {on_device().sums, {StepStatistics::summed}}; }

  /// What the current step (0) or the one before (1) left, once it is done; nothing where it was
  /// taken, or there was none.
  StepResult take(int steps_ago) {
    const int place = (mailbox_.place() + steps_ago) % 2;
    if (!std::exchange(pending_[place], false)) return {};
    wait_for_event(parts_.communicator, done_[place].handle(), "the step's end");
    const StepFound& found = mailbox_.found(steps_ago);
    const StepStatistics& statistics = found.statistics;
    const auto count = [&](int i) { return static_cast<std::int64_t>(statistics.sums[i]); };
    StepResult result{.steps = 1,
                      .sums = {.loss = static_cast<double>(statistics.sums[0]),
                               .samples = count(1),
                               .top1 = count(2),
                               .top5 = count(3)},
                      .stop = statistics.stop > 0.0F,
                      .exposed_seconds = static_cast<double>(statistics.exposed)};
    if (rules_.clip_norm > 0.0) result.gradient_norm = found.state.norm;
    if (found.state.failed != 0) {
      // It and what followed changed nothing and count for nothing.
      result.failed_step = step_of_[place];
      parts_.optimizer.set_steps_taken(result.failed_step - 1);
    }
    return result;
  }

  /// Makes the end of the current step the moment in which all ranks' devices have ended it. By a
  /// sum, since those are counted: a time-out names who is behind.
  void meet() {
    const Tensor word(meeting_.rows().data(), {1});
    parts_.communicator.all_reduce_async(word, ReduceOp::sum, meeting_label)->wait();
    done_[mailbox_.place()].record(context_);
  }

  /// Keeps the batch of the step before, in case that turns out to have failed.
  void keep(int micro) {
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(
        previous_[static_cast<std::size_t>(micro)].data(), input_.current(micro).memory.data(),
        parts_.raw->layout.bytes(), cudaMemcpyDeviceToDevice, context_.stream()));
  }

  void bring_batches(const NextBatch& next_batch) {
    const TraceRange range("batches");
    // Travels while the step before computes.
    for (int micro = 0; micro < accumulate_; ++micro) input_.upload(next_batch().raw);
    for (int micro = 0; micro < accumulate_; ++micro) {
      keep(micro);
      input_.advance();
    }
  }

  void launch() {
    if (!std::exchange(ran_, true)) {
      const TraceRange range("first step");
      enqueue();
      return;
    }
    if (!graph_) {
      const TraceRange range("capture");
      graph_.emplace(context_, [this] { enqueue(); });
    }
    const TraceRange range("launch");
    graph_->launch();
  }

  void tell(StepPart part) const {
    if (observer_ != nullptr) observer_->ended(part);
  }

  /// Orders the next step.
  void give_order(float learning_rate, bool stop_requested) {
    StepOrder& order = mailbox_.next_order();
    order.stop = stop_requested ? 1.0F : 0.0F;
    HostControl& host = order.control;
    parts_.optimizer.fill(host, learning_rate);
    host.gradient_scale = 1.0F / static_cast<float>(parts_.communicator.size() * accumulate_);
    host.first_sample = step_random(parts_, parts_.optimizer.steps_taken(), 0).first_sample;
    if (parts_.average != nullptr) {
      host.average_weight = parts_.average->weight_at(parts_.optimizer.steps_taken() + 1);
    }
  }

  /// One whole step, as the stream's work.
  void enqueue() {
    tell(StepPart::start);
    mailbox_.enqueue_begin(control(), &on_device());
    for (int micro = 0; micro < accumulate_; ++micro) {
      const bool last = micro + 1 == accumulate_;
      forward(micro);
      if (last) {
        request_ =
            parts_.communicator.all_reduce_async(statistics(), ReduceOp::sum, statistics_label);
        parts_.bucketer.begin_step();
      }
      parts_.plan.backward(micro > 0, [&](std::span<const std::size_t> parameters) {
        if (!last) return;
        for (const std::size_t parameter : parameters) parts_.bucketer.ready(parameter);
      });
    }
    finish_reduction();
    tell(StepPart::reduction);
    update();
    if (waits_) gradient_wait_.join();
    mailbox_.enqueue_end(control(), &on_device());
    tell(StepPart::update);
  }

  /// Waits for the sums of the gradients, and measures how long.
  void finish_reduction() {
    if (waits_) gradient_wait_.start();
    parts_.bucketer.finish();
    if (waits_) gradient_wait_.stop(&on_device().exposed);
    request_->wait();
  }

  void forward(int micro) {
    const std::int64_t apart = parts_.plan.batch() * parts_.communicator.size();
    const StepRandom random{.seed = parts_.config.seed,
                            .first_sample = static_cast<std::uint64_t>(micro * apart),
                            .base_on_device = &control()->host.first_sample};
    const Tensor sums(micro_sums_.rows().data(), {4});
    const Tensor total(on_device().sums, {4});
    const RawBatchView& batch = input_.current(micro);
    enqueue_micro_batch(batch);
    tell(StepPart::input);
    const Targets targets{.labels = batch.labels,
                          .second_labels = batch.second_labels,
                          .weights = batch.label_weights};
    parts_.plan.enqueue_forward(images_, targets, parts_.plan.batch(), random,
                                rules_.loss_scaling ? &control()->state.loss_scale.scale : nullptr,
                                sums);
    add_forward(context_, total, sums, total);
    tell(StepPart::loss);
  }

  void enqueue_micro_batch(const RawBatchView& batch) {
    const TraceRange range("input");
    enqueue_input(context_, batch, parts_.raw->spec, images_);
  }

  void update() {
    const TraceRange range("update");
    if (!updates_in_backward_) {
      const Tensor gradients = parts_.bucketer.sums();
      controller_.prepare(statistics(), gradients);
      parts_.optimizer.enqueue(parts_.store.trained_values(), gradients,
                               {.control = control(), .weights = parts_.store.trained_weights()});
      if (parts_.shared != nullptr) parts_.shared->wait_for_each_other();
    }
    if (parts_.average != nullptr) parts_.average->enqueue(parts_.store, control());
  }

  /// Of the bucket whose sums the context's stream has just been given, or of a single rank's whose
  /// gradients it has; the first one is first.
  void update_bucket(std::size_t index) {
    const TraceRange range("update");
    if (index == 0) {
      request_->wait();
      controller_.prepare(statistics(), parts_.bucketer.sums());
    }
    if (parts_.sharded != nullptr) {
      UpdateSettings settings = parts_.sharded->settings(index);
      settings.control = control();
      parts_.optimizer.enqueue(parts_.store.trained_values(), parts_.bucketer.sums(), settings);
      return;
    }
    const Bucket& bucket = parts_.bucketer.buckets()[index];
    parts_.optimizer.enqueue(parts_.store.trained_values(), parts_.plan.passing_gradients(index),
                             {.control = control(),
                              .weights = parts_.store.trained_weights(),
                              .begin = bucket.offset,
                              .end = bucket.offset + bucket.elements});
  }

  CudaContext& context_;
  StepParts parts_;
  int accumulate_;
  StepRules rules_;
  StepController controller_;
  StepMailbox mailbox_{parts_.context};
  ContextTable<StepStatistics> statistics_;
  ContextTable<float> micro_sums_;
  ContextTable<float> meeting_;
  const bool updates_in_backward_ =
      parts_.sharded != nullptr || parts_.plan.gradient_memory() == GradientMemory::passing;
  const bool waits_ = parts_.communicator.size() > 1;  // else there is nothing to wait for
  DeviceStopwatch gradient_wait_{context_};
  DeviceInput input_{context_, parts_.raw->layout, accumulate_};
  std::vector<Arena> previous_;  // the batches of the step before, by micro-batch
  Arena image_memory_;
  Tensor images_;      // the model's input
  CudaEvent done_[2];  // by place in the mailbox, as what follows
  std::int64_t step_of_[2] = {0, 0};
  std::unique_ptr<Request> request_;
  std::optional<CudaGraph> graph_;
  StepObserver* observer_ = nullptr;
  bool ran_ = false;
  bool pending_[2] = {false, false};
  bool failing_is_previous_ = false;
};

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(CudaContext& context, const StepParts& parts) {
  return std::make_unique<CapturedStep>(context, parts);
}

}  // namespace tandem
