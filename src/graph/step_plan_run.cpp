#include <algorithm>

#include "device/trace_range.h"
#include "graph/step_plan_step.h"
#include "layers/add.h"
#include "tensor/finite.h"

namespace tandem {
namespace {

void activate(const AnyContext& context) {
  std::visit([](const auto& device) { device.activate(); }, context);
}

void add_to(AnyContext& context, const Tensor& addend, const Tensor& sum) {
  std::visit([&](auto& device) { add_forward(device, sum, addend, sum); }, context);
}

void add_partial_gradients(AnyContext& context, const std::vector<Tensor>& partial,
                           const std::vector<bool>& trained, const std::vector<Tensor>& sums) {
  for (std::size_t p = 0; p < partial.size(); ++p) {
    if (trained[p]) add_to(context, partial[p], sums[p]);
  }
}

}  // namespace

LossSums StepPlan::forward(const Tensor& images, const Targets& targets, std::int64_t valid,
                           const StepRandom& random) {
  require_whole_batch(valid);
  run_layers(images, random);
  const TraceRange range("loss");
  return softmax_cross_entropy(*context_, logits(), targets, options_.label_smoothing, valid,
                               loss_gradient_, loss_scratch_);
}

void StepPlan::enqueue_forward(const Tensor& images, const Targets& targets, std::int64_t valid,
                               const StepRandom& random, const float* gradient_scale,
                               const Tensor& sums) {
  require_whole_batch(valid);
  run_layers(images, random);
  const TraceRange range("loss");
  softmax_cross_entropy_into(*context_, logits(), targets, options_.label_smoothing, valid,
                             loss_gradient_, gradient_scale, sums, loss_scratch_);
}

void StepPlan::require_whole_batch(std::int64_t valid) const {
  TANDEM_CHECK(!options_.training || valid == options_.batch, "{} of {} samples in training", valid,
               options_.batch);
}

void StepPlan::run_layers(const Tensor& images, const StepRandom& random) {
  const TraceRange range("forward");
  activate(*context_);
  for (Step& step : steps_) run_forward(step, images, random);
}

void StepPlan::run_forward(Step& step, const Tensor& images, const StepRandom& random) const {
  const TraceRange range(step.name);
  for (const std::size_t slot : step.model_inputs) step.inputs[slot] = images;
  step.kernel->forward({.inputs = step.inputs,
                        .output = step.output,
                        .parameters = step.parameters,
                        .weights = step.weights,
                        .buffers = step.buffers,
                        .buffers_apart = buffers_apart_,
                        .saved = step.saved,
                        .output_norm = step.output_norm,
                        .input_norm = step.input_norm,
                        .scratch = step.forward_scratch,
                        .random = random});
  if (options_.after_layer) options_.after_layer();
}

std::optional<std::string> StepPlan::first_non_finite_layer(const Tensor& images,
                                                            const StepRandom& random) {
  activate(*context_);
  std::optional<std::string> first;
  // All of them run, also after the first: a layer may communicate.
  for (Step& step : steps_) {
    run_forward(step, images, random);
    if (!first && !all_finite(*context_, step.output)) first = step.name;
  }
  return first;
}

void StepPlan::backward(bool accumulate, const Progress& progress) {
  TANDEM_CHECK(options_.training, "backward of a plan made for evaluation");
  TANDEM_CHECK(!accumulate || options_.accumulation, "a plan made without accumulation");
  const TraceRange range("backward");
  activate(*context_);
  std::size_t newest = steps_.size();  // of what was given to the side queue
  const auto lowest =
      static_cast<std::size_t>(std::ranges::find(steps_, true, &Step::backward) - steps_.begin());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const std::size_t due = i + side_lag + 1;
    if (side_ != nullptr && due < steps_.size() && (steps_[due].aside || steps_[due].ends_group)) {
      side_->wait(due);
    }
    if (!steps_[i].backward) continue;
    run_backward(steps_[i], accumulate);
    if (side_ == nullptr || steps_[i].parameter_indices.empty()) {
      finish_backward(steps_[i], accumulate, progress);
    } else {
      // Of layers that compute nothing aside too: gradients of those before are on their way there.
      side_->run(i, [this, i, accumulate, &progress] {
        finish_backward(steps_[i], accumulate, progress);
      });
      newest = i;
    }
    // Before the last moment: what is still aside belongs to backward.
    if (i == lowest && newest < steps_.size()) side_->wait(newest);
    if (options_.after_layer) options_.after_layer();
  }
}

/// What the layers before wait for.
void StepPlan::run_backward(Step& step, bool accumulate) {
  const TraceRange range(step.name);
  const std::vector<Tensor>& gradients = step.own_gradients(accumulate);
  step.kernel->backward({.inputs = step.inputs,
                         .output = step.output,
                         .output_gradient = step.output_gradient,
                         .input_gradients = step.input_gradients,
                         .parameters = step.parameters,
                         .weights = step.weights,
                         .parameter_gradients = gradients,
                         .saved = step.saved,
                         .handed_on = step.handed_on,
                         .output_norm = step.output_norm,
                         .input_norm = step.input_norm,
                         .scratch = step.backward_scratch});
  for (std::size_t slot = 0; slot < step.add_into.size(); ++slot) {
    if (step.add_into[slot].defined()) {
      add_to(*context_, step.input_gradients[slot], step.add_into[slot]);
    }
  }
  if (accumulate && !step.aside) {
    add_partial_gradients(*context_, gradients, step.trained, step.gradients);
  }
}

/// The rest, which only those wait for who want the gradients.
void StepPlan::finish_backward(Step& step, bool accumulate, const Progress& progress) {
  if (step.aside) {
    const TraceRange range(step.name);
    const std::vector<Tensor>& gradients = step.own_gradients(accumulate);
    step.kernel->backward_weights({.inputs = step.inputs,
                                   .output = {},
                                   .output_gradient = step.output_gradient,
                                   .input_gradients = {},
                                   .parameters = step.parameters,
                                   .weights = step.weights,
                                   .parameter_gradients = gradients,
                                   .handed_on = step.handed_on,
                                   .input_norm = step.input_norm,
                                   .scratch = step.weights_scratch});
    if (accumulate) add_partial_gradients(*context_, gradients, step.trained, step.gradients);
  }
  if (progress) progress(step.parameter_indices);
}

std::size_t StepPlan::side_layers() const {
  return static_cast<std::size_t>(std::ranges::count(steps_, true, &Step::aside));
}

bool StepPlan::has_backward(std::size_t layer) const { return steps_.at(layer).backward; }

std::vector<bool> StepPlan::deferred_norms() const {
  std::vector<bool> deferred;
  for (const Step& step : steps_) deferred.push_back(step.norm_left_to >= 0);
  return deferred;
}

Tensor StepPlan::logits() const { return steps_.back().output; }

}  // namespace tandem
