#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/side_queue.h"
#include "graph/graph.h"
#include "graph/norm_deferral.h"
#include "graph/parameters.h"
#include "layers/softmax_cross_entropy.h"

namespace tandem {

/// Which layers compute their weights' gradients beside the rest of backward, which does not wait
/// for them, where the device has a SideQueue and the layer can. It takes memory: what these
/// gradients are made of is kept for a few layers longer.
enum class SideWork : std::uint8_t {
  /// By size or never, as make_step_plan() finds it faster (graph/step_plan_choice.h); by size in a
  /// plan that is made otherwise.
  by_timing,
  /// Layers whose inputs and output together fit in the device's cache: their kernels are short and
  /// leave most of the device idle. Larger ones fill it alone.
  by_size,
  never,
  always,
};

/// Where the gradients of trained parameters lie.
enum class GradientMemory : std::uint8_t {
  /// In the store, whose memory of gradients is theirs alone.
  stored,
  /// In the store; activations may lie in their memory until backward writes them, so that
  /// forward() destroys those of the step before. Gaps between them stay zero. Whoever reads the
  /// gradients does so between a backward() and the next forward(), and nobody else writes there.
  lent,
  /// In the plan's own memory, a group of parameters at a time: whoever uses a group does so while
  /// Progress tells of the last of it and of the groups before, and other things may lie there
  /// afterwards. The store needs no gradients.
  passing,
};

struct StepPlanOptions {
  std::int64_t batch = 1;
  bool training = false;
  /// As of the parameter store.
  Precision precision = Precision::fp32;
  float label_smoothing = 0.0F;
  /// Whether backward() may be asked to add to the gradients instead of overwriting them.
  bool accumulation = false;
  /// Others than stored only for training without accumulation.
  GradientMemory gradient_memory = GradientMemory::stored;
  /// Of passing gradients: the groups, which follow each other and are all trained parameters; the
  /// plan's constructor throws Error where they are not.
  std::vector<ParameterRange> gradient_groups{};
  /// Memory of the context's, aligned as an Arena, that the plan may take beside its own: what is
  /// there before a pass is destroyed by it, and nobody else writes there between a forward() and
  /// the backward() behind it. Outlives the plan. Not together with lent gradients.
  std::span<std::byte> spare{};
  /// Whether normalisations whose parameters are frozen keep their running statistics and normalise
  /// with them; otherwise they use and follow the batch's, frozen or not.
  bool freeze_statistics = true;
  /// Whom batch statistics are taken over in training; null: this rank alone. Outlives the plan.
  RankSum* rank_sum = nullptr;
  /// Of how many ranks the batch holds the samples; see KernelRequest::batch_groups. In training
  /// the store has buffers of as many, of one with a rank_sum.
  std::int64_t batch_groups = 1;
  SideWork side_work = SideWork::by_size;
  NormDeferral norm_deferral = NormDeferral::by_size;
  NormKernels norm_kernels = NormKernels::by_timing;
  /// Bytes of a device's free memory that the plan may have, where others are to have the rest;
  /// nothing: all of it.
  std::optional<std::size_t> room = std::nullopt;
  /// Of that, what runs the plan takes beside it: a way that timing chooses leaves it free.
  std::size_t reserve = 0;
  /// Instead of the device's own queue; for tests.
  std::shared_ptr<SideQueue> side_queue = nullptr;
  /// Called after each layer, at construction and in every pass; may be empty. For a rank to say
  /// that it is at work, so it must be cheap.
  std::function<void()> after_layer{};
};

/// Everything that one step does on one device, decided at construction: kernels, primitives and
/// the place of every activation. A step then allocates and decides nothing.
///
/// Backward goes no deeper than the lowest trained parameter, and kernels leave out the gradients
/// of frozen ones (see ParameterStore).
///
/// Several plans (training and evaluation) may share one ParameterStore. The graph, the store and
/// the context must outlive the plan.
class StepPlan {
 public:
  /// Called during backward when the gradients of these (trained) parameters are final for this
  /// pass, and once per layer without any, in backward's order: the place to launch and to progress
  /// collectives. What is enqueued there for parameters comes after their gradients and those of
  /// the calls before, which the context's stream outside of the call need not.
  using Progress = std::function<void(std::span<const std::size_t> parameters)>;

  StepPlan(const Graph& graph, ParameterStore& parameters, AnyContext& context,
           const StepPlanOptions& options);
  ~StepPlan();
  StepPlan(const StepPlan&) = delete;
  StepPlan& operator=(const StepPlan&) = delete;

  /// Whose kernels a bound is of: the context's, or any device's, which may sum the gradients of a
  /// value that several layers read in place, and read no output in backward.
  enum class Kernels : std::uint8_t { as_here, of_any_device };
  /// Bytes that activations and their gradients take at least in such a plan, which what kernels
  /// need beside them comes on top of. Makes no kernels and allocates nothing. With those of any
  /// device also for one that this process has not opened, whatever the context.
  static std::size_t least_activation_bytes(const Graph& graph, ParameterStore& parameters,
                                            AnyContext& context, const StepPlanOptions& options,
                                            Kernels kernels = Kernels::as_here);

  /// Runs the model and the loss. images (batch, H, W, C) of the activations' dtype and targets of
  /// the batch, in the context's memory; the first
  /// `valid` samples count. In a training plan all must be valid, the images must stay untouched
  /// until backward() returns, running statistics are updated, and random layers draw by `random`.
  LossSums forward(const Tensor& images, const Targets& targets, std::int64_t valid,
                   const StepRandom& random = {});

  /// The name of the first layer whose output holds a value that is not finite: the layers run
  /// once more on `images`, since a step gives the memory of most outputs away. Nothing where all
  /// are finite. Where a normalisation is left to the layer's reader, it counts as the reader's.
  /// For a step that failed: running statistics are updated again, and lent gradients are gone.
  std::optional<std::string> first_non_finite_layer(const Tensor& images,
                                                    const StepRandom& random = {});

  /// Gradients of the mean loss of the batch of the last forward(), into the store's gradient
  /// arena or group after group (GradientMemory::passing); with `accumulate` added to what is
  /// there. Training plans only.
  void backward(bool accumulate, const Progress& progress);

  /// As forward(), but only enqueued on a device, so that it can be captured, and with the loss of
  /// softmax_cross_entropy_into(): labels are not checked. `sums`, f32 (4) in the context's memory,
  /// gets loss, samples, top1 and top5. The gradients are multiplied by *gradient_scale, in the
  /// context's memory, where it is not null.
  void enqueue_forward(const Tensor& images, const Targets& targets, std::int64_t valid,
                       const StepRandom& random, const float* gradient_scale, const Tensor& sums);

  /// The model's output of the last forward(): (batch, classes), of the activations' dtype.
  Tensor logits() const;

  /// Whether backward() runs the graph's node of this index: a parameter is trained there or below.
  bool has_backward(std::size_t layer) const;
  /// By layer of the graph: whether its normalisation is left to the layer that reads it.
  std::vector<bool> deferred_norms() const;

  std::int64_t batch() const { return options_.batch; }
  GradientMemory gradient_memory() const { return options_.gradient_memory; }
  /// Where passing gradients of a group lie: f32, laid out as that part of the store's arenas, from
  /// its first parameter's offset to its last one's end. What lies between parameters is anything.
  /// Throws std::out_of_range where there is no such group.
  const Tensor& passing_gradients(std::size_t group) const { return gradient_groups_.at(group); }
  /// Bytes of activations, their gradients and scratch, less those that lie in lent or spare
  /// memory.
  std::size_t activation_bytes() const { return memory_.bytes(); }
  /// Where these lie. From the end of a step to the begin of the next one nothing but the logits is
  /// kept there, so that it may be another plan's spare memory.
  std::span<std::byte> memory() const { return {memory_.data(), memory_.bytes()}; }
  /// Layers whose weights' gradients are computed beside the rest of backward.
  std::size_t side_layers() const;
  Precision precision() const { return options_.precision; }

 private:
  struct Step;
  class Builder;

  /// Throws where samples do not count in training, whose gradients are means over all of them.
  void require_whole_batch(std::int64_t valid) const;
  void run_layers(const Tensor& images, const StepRandom& random);
  void run_forward(Step& step, const Tensor& images, const StepRandom& random) const;
  void run_backward(Step& step, bool accumulate);
  void finish_backward(Step& step, bool accumulate, const Progress& progress);

  StepPlanOptions options_;
  AnyContext* context_;
  Arena memory_;
  std::shared_ptr<SideQueue> side_;      // null where nothing goes aside
  std::vector<Step> steps_;              // in forward order
  std::vector<Tensor> gradient_groups_;  // of passing gradients
  Tensor loss_gradient_;                 // where the loss writes the gradient of the logits
  std::byte* loss_scratch_ = nullptr;
  std::int64_t buffers_apart_ = 0;  // ForwardArgs::buffers_apart
};

}  // namespace tandem
