#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda_graph.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"
#include "optim/optimizer.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/self_communicator.h"

namespace tandem {

struct GpuStepOptions {
  std::string model = "resnet18";
  std::int64_t size = 32;
  std::int64_t classes = 10;
  std::int64_t batch = 128;
  Precision precision = Precision::bf16;
  SideWork side_work = SideWork::by_timing;
  NormDeferral norm_deferral = NormDeferral::by_timing;
  NormKernels norm_kernels = NormKernels::by_timing;
  /// Nothing: as in training of one rank.
  std::optional<GradientMemory> gradient_memory{};
  /// Of passing gradients. Nothing: as in training.
  std::optional<std::int64_t> bucket_bytes{};
};

/// A training step on one fixed batch of noise that lies on the GPU: SGD with momentum 0.9 and
/// weight decay 1e-4 at a learning rate of 0.01. Each part is only enqueued, so that it can be
/// captured.
class GpuStep {
 public:
  /// Lays out the model, chooses kernels, makes the batch. `context` is a CUDA one and outlives it.
  GpuStep(AnyContext& context, const GpuStepOptions& options);

  void enqueue_forward();
  /// With the update of each bucket of gradients, where these pass.
  void enqueue_backward();
  /// Of what backward has not updated.
  void enqueue_update();
  void enqueue() {
    enqueue_forward();
    enqueue_backward();
    enqueue_update();
  }

  /// The mean loss of the last forward pass, which it waits for.
  double loss() const;

  CudaContext& cuda() const { return std::get<CudaContext>(*context_); }
  const Graph& graph() const { return graph_; }
  /// Building the plan: above all timing kernels to choose among them.
  double plan_seconds() const { return plan_seconds_; }
  /// Of parameters, their copies, gradients, statistics and optimizer state.
  std::size_t state_bytes() const;
  /// Of activations, their gradients and scratch.
  std::size_t activation_bytes() const { return plan_->activation_bytes(); }
  std::size_t side_layers() const { return plan_->side_layers(); }
  /// Layers whose normalisation is left to the reader.
  std::size_t deferred_norms() const;
  /// Of the images, as the model gets them.
  std::size_t batch_bytes() const { return images_.bytes(); }

 private:
  bool passes() const { return gradient_memory_ == GradientMemory::passing; }
  void make_batch(const GpuStepOptions& options);
  void make_bucketer(const GpuStepOptions& options);
  void make_plan(const GpuStepOptions& options);
  void update_bucket(std::size_t index);

  AnyContext* context_;
  Graph graph_;
  GradientMemory gradient_memory_;
  ParameterStore store_;
  double plan_seconds_ = 0.0;
  SelfCommunicator self_;
  std::optional<GradientBucketer> bucketer_;  // of passing gradients
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<Optimizer> optimizer_;
  Arena images_memory_;
  Arena small_memory_;
  Tensor images_;
  Tensor labels_;
  Tensor sums_;
  StepRandom random_;
  float gradient_scale_ = 1.0F;
  const float* gradient_scale_on_device_ = nullptr;
};

}  // namespace tandem
