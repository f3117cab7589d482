#include "gpu_step.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/philox.h"
#include "device/memory.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/step_plan_choice.h"
#include "optim/sgd.h"
#include "tensor/convert.h"
#include "tensor/host_tensor.h"
#include "train/step/gradient_buckets.h"
#include "train/step/gradient_memory.h"

namespace tandem {
namespace {

constexpr float learning_rate = 0.01F;
constexpr float weight_decay = 1e-4F;
/// Half precision's small gradients are lifted by this and lowered again in the update.
constexpr float fp16_scale = 1024.0F;

Graph load(const GpuStepOptions& options) {
  return fuse(
      load_model(find_model(options.model), {.classes = options.classes, .size = options.size}));
}

std::unique_ptr<Optimizer> make_sgd(AnyContext& context, const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    slices.push_back({.offset = parameter.offset,
                      .elements = parameter.shape.elements(),
                      .weight_decay = weight_decay});
  }
  return std::make_unique<Sgd>(context, store.trained_values().elements(), slices,
                               SgdOptions{.momentum = 0.9F});
}

/// What a run file would say of this step.
RunConfig run_config(const GpuStepOptions& options) {
  RunConfig config;
  config.precision = options.precision;
  config.bucket_bytes = options.bucket_bytes;
  return config;
}

}  // namespace

GpuStep::GpuStep(AnyContext& context, const GpuStepOptions& options)
    : context_(&context),
      graph_(load(options)),
      gradient_memory_(
          options.gradient_memory.value_or(gradient_memory(run_config(options), 1, true))),
      store_(graph_, context, !passes(), {}, options.precision) {
  store_.initialize(1);
  if (passes()) make_bucketer(options);
  make_plan(options);
  optimizer_ = make_sgd(context, store_);
  make_batch(options);
}

void GpuStep::make_bucketer(const GpuStepOptions& options) {
  bucketer_.emplace(
      self_, Tensor(), slices_of(store_.trained()),
      gradient_buckets(run_config(options), store_, self_.sum_cost(), gradient_memory_));
  bucketer_->update_each([this](std::size_t bucket) { update_bucket(bucket); });
}

void GpuStep::make_plan(const GpuStepOptions& options) {
  std::vector<ParameterRange> groups;
  if (passes()) groups = groups_of(bucketer_->buckets());
  const auto start = std::chrono::steady_clock::now();
  plan_ = make_step_plan(graph_, store_, *context_,
                         {.batch = options.batch,
                          .training = true,
                          .precision = options.precision,
                          .gradient_memory = gradient_memory_,
                          .gradient_groups = std::move(groups),
                          .side_work = options.side_work,
                          .norm_deferral = options.norm_deferral,
                          .norm_kernels = options.norm_kernels});
  synchronize(*context_);
  plan_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void GpuStep::make_batch(const GpuStepOptions& options) {
  const Shape shape{options.batch, options.size, options.size, graph_.input().extents().back()};
  const DType dtype = activation_dtype(options.precision);
  RandomStream random(7);
  std::vector<float> pixels(static_cast<std::size_t>(shape.elements()));
  for (float& pixel : pixels) pixel = random.uniform(-1.0F, 1.0F);
  images_ = Tensor(nullptr, shape, dtype);
  images_memory_ = Arena(*context_, images_.bytes(), "the images");
  images_ = Tensor(images_memory_.data(), shape, dtype);
  const Arena wide(*context_, pixels.size() * sizeof(float), "the images as f32");
  copy_to_device(*context_, pixels.data(), pixels.size() * sizeof(float), wide.data());
  convert(*context_, Tensor(wide.data(), shape), images_);
  synchronize(*context_);

  std::vector<std::int32_t> labels(static_cast<std::size_t>(options.batch));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % options.classes);
  }
  // The loss's sums, the place of the step's first sample, the gradients' scale, and the labels.
  const std::size_t label_bytes = labels.size() * sizeof(std::int32_t);
  small_memory_ = Arena(*context_, 3 * Arena::alignment + label_bytes, "the labels");
  std::byte* place = small_memory_.data();
  sums_ = Tensor(place, {4});
  random_ = {.seed = 1,
             .base_on_device = reinterpret_cast<const std::uint64_t*>(place + Arena::alignment)};
  if (options.precision == Precision::fp16) {
    auto* scale = reinterpret_cast<float*>(place + 2 * Arena::alignment);
    copy_to_device(*context_, &fp16_scale, sizeof(float), scale);
    gradient_scale_on_device_ = scale;
    gradient_scale_ = 1.0F / fp16_scale;
  }
  labels_ = Tensor(place + 3 * Arena::alignment, {options.batch}, DType::i32);
  copy_to_device(*context_, labels.data(), label_bytes, labels_.raw());
}

void GpuStep::enqueue_forward() {
  plan_->enqueue_forward(images_, {.labels = labels_}, plan_->batch(), random_,
                         gradient_scale_on_device_, sums_);
}

void GpuStep::enqueue_backward() {
  if (!passes()) return plan_->backward(false, {});
  bucketer_->begin_step();
  plan_->backward(false, [this](std::span<const std::size_t> parameters) {
    for (const std::size_t parameter : parameters) bucketer_->ready(parameter);
  });
  bucketer_->finish();
}

void GpuStep::update_bucket(std::size_t index) {
  const Bucket& bucket = bucketer_->buckets()[index];
  optimizer_->enqueue(store_.trained_values(), plan_->passing_gradients(index),
                      {.learning_rate = learning_rate,
                       .gradient_scale = gradient_scale_,
                       .weights = store_.trained_weights(),
                       .begin = bucket.offset,
                       .end = bucket.offset + bucket.elements});
}

void GpuStep::enqueue_update() {
  if (passes()) return;
  optimizer_->enqueue(store_.trained_values(), store_.all_gradients(),
                      {.learning_rate = learning_rate,
                       .gradient_scale = gradient_scale_,
                       .weights = store_.trained_weights()});
}

double GpuStep::loss() const {
  const HostTensor sums(*context_, sums_);
  const auto* values = sums.tensor().data<float>();
  return static_cast<double>(values[0]) / static_cast<double>(values[1]);
}

std::size_t GpuStep::deferred_norms() const {
  const std::vector<bool> deferred = plan_->deferred_norms();
  return static_cast<std::size_t>(std::ranges::count(deferred, true));
}

std::size_t GpuStep::state_bytes() const {
  std::size_t bytes = store_.all_values().bytes() + store_.all_buffers().bytes();
  if (!passes()) bytes += store_.all_gradients().bytes();
  if (store_.all_weights().raw() != store_.all_values().raw())
    bytes += store_.all_weights().bytes();
  for (const OptimizerState& state : optimizer_->state()) bytes += state.tensor.bytes();
  return bytes;
}

}  // namespace tandem
