#include "layers/plans/convolution_plan.h"

#include <algorithm>
#include <set>

#include "device/arena.h"
#include "layers/plans/channel_padding.h"
#include "layers/plans/convolution_direct.h"
#include "layers/plans/convolution_rewrite.h"
#include "layers/plans/cudnn_convolution_graph.h"
#include "layers/plans/depthwise_plan.h"
#include "layers/plans/matmul_plan.h"
#include "layers/plans/stem_plan.h"
#include "layers/plans/summed_plan.h"
#include "tensor/tensor_kernels.h"

namespace tandem {
namespace {

constexpr std::size_t most_workspace = std::size_t{512} << 20U;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// "cudnn c8 k64 f32 ": what stands before cuDNN's name of the plan.
std::string prefix_of(const OperandLayout& layout) {
  return fmt::format("cudnn c{} k{} {} ", layout.channels, layout.out_channels,
                     name_of(layout.result));
}

ConvolutionProblem padded(const ConvolutionProblem& problem, const OperandLayout& layout) {
  ConvolutionProblem result = problem;
  result.channels = layout.channels;
  result.out_channels = layout.out_channels;
  return result;
}

/// A tensor of the problem and its place in the padded problem.
struct Operand {
  Padding padding;
  DType dtype = DType::f32;   ///< the layer's
  DType padded = DType::f32;  ///< what cuDNN is given

  bool is_same() const { return padding.is_none() && dtype == padded; }
  std::size_t padded_bytes() const {
    return static_cast<std::size_t>(padding.padded_rows * padding.padded_columns) * size_of(padded);
  }
};

Operand input_operand(const ConvolutionProblem& p, const ConvolutionProblem& q) {
  return {{p.pixels(), p.channels, q.pixels(), q.channels}, p.dtype(), p.dtype()};
}
Operand output_operand(const ConvolutionProblem& p, const ConvolutionProblem& q) {
  return {{p.out_pixels(), p.out_channels, q.out_pixels(), q.out_channels}, p.dtype(), p.dtype()};
}
Operand weight_operand(const ConvolutionProblem& p, const ConvolutionProblem& q) {
  return {{p.taps(), p.group_channels(), q.taps(), q.group_channels()}, p.dtype(), p.dtype()};
}

/// A plan of cuDNN between the copies that its layout needs.
class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(CudaContext& context, std::shared_ptr<CudnnConvolutionGraph> graph, int index,
            const ConvolutionProblem& problem, const OperandLayout& layout)
      : context_(&context), graph_(std::move(graph)), index_(index), layout_(layout) {
    const ConvolutionProblem q = padded(problem, layout);
    switch (problem.operation) {
      case ConvolutionOperation::forward:
        first_ = input_operand(problem, q);
        second_ = weight_operand(problem, q);
        result_ = output_operand(problem, q);
        break;
      case ConvolutionOperation::data_gradient:
        first_ = output_operand(problem, q);
        second_ = weight_operand(problem, q);
        result_ = input_operand(problem, q);
        break;
      case ConvolutionOperation::weight_gradient:
        first_ = input_operand(problem, q);
        second_ = output_operand(problem, q);
        result_ = weight_operand(problem, q);
        result_.dtype = DType::f32;
        break;
    }
    result_.padded = layout.result;
    second_at_ = room(first_);
    result_at_ = second_at_ + room(second_);
    workspace_at_ = result_at_ + room(result_);
  }

  std::string name() const override { return prefix_of(layout_) + graph_->plan_name(index_); }
  std::size_t scratch() const override { return workspace_at_ + graph_->workspace(index_); }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    first = taken(first_, first, scratch);
    second = taken(second_, second, scratch + second_at_);
    void* written = result_.is_same() ? result : scratch + result_at_;
    graph_->run(index_, first, second, written, scratch + workspace_at_);
    if (result_.is_same()) return;
    if (result_.padding.is_none()) {
      const Shape shape{result_.padding.rows, result_.padding.columns};
      convert(*context_, Tensor(written, shape, result_.padded),
              Tensor(result, shape, result_.dtype));
    } else {
      crop_matrix(*context_, result_.padding, result_.padded, written, result_.dtype, result);
    }
  }

 private:
  static std::size_t room(const Operand& operand) {
    return operand.is_same() ? 0 : Arena::align(operand.padded_bytes());
  }

  const void* taken(const Operand& operand, const void* data, std::byte* room) const {
    if (operand.is_same()) return data;
    pad_matrix(*context_, operand.padding, operand.dtype, data, room);
    return room;
  }

  CudaContext* context_;
  std::shared_ptr<CudnnConvolutionGraph> graph_;
  int index_;
  OperandLayout layout_;
  Operand first_, second_, result_;
  std::size_t second_at_ = 0;
  std::size_t result_at_ = 0;
  std::size_t workspace_at_ = 0;
};

std::shared_ptr<CudnnConvolutionGraph> graph_of(CudaContext& context,
                                                const ConvolutionProblem& problem,
                                                const OperandLayout& layout) {
  return std::make_shared<CudnnConvolutionGraph>(context, padded(problem, layout), layout.result);
}

void add_cudnn_plans(CudaContext& context, const ConvolutionProblem& problem,
                     const OperandLayout& layout, std::size_t most,
                     std::vector<ConvolutionPlanPtr>& plans) {
  const auto graph = graph_of(context, problem, layout);
  std::set<std::string> names;  // the heuristics may name a plan twice
  for (int i = 0; i < graph->plan_count() && names.size() < most; ++i) {
    const std::string name = graph->plan_name(i);
    if (names.contains(name) || !graph->build(i, most_workspace)) continue;
    plans.push_back(std::make_shared<CudnnPlan>(context, graph, i, problem, layout));
    names.insert(name);
  }
}

/// `name` is cuDNN's, without the layout.
ConvolutionPlanPtr restore_cudnn_plan(CudaContext& context, const ConvolutionProblem& problem,
                                      const OperandLayout& layout, std::string_view name) {
  const auto graph = graph_of(context, problem, layout);
  for (int i = 0; i < graph->plan_count(); ++i) {
    // Of several plans of one name the first that exists here was tried.
    if (graph->plan_name(i) != name || !graph->build(i, most_workspace)) continue;
    return std::make_shared<CudnnPlan>(context, graph, i, problem, layout);
  }
  return nullptr;
}

/// Whether Tandem has kernels for it that are not there for want of others alone.
bool has_own_plan(const ConvolutionProblem& problem) {
  return is_depthwise(problem) && !problem.adds;
}

/// Plans for the very problem, of the libraries but for depthwise ones' own.
std::vector<ConvolutionPlanPtr> plans_as_it_is(CudaContext& context,
                                               const ConvolutionProblem& problem,
                                               std::size_t most_each) {
  std::vector<ConvolutionPlanPtr> plans;
  if (has_own_plan(problem)) plans.push_back(depthwise_plan(context, problem));
  for (const OperandLayout& layout : operand_layouts(problem)) {
    add_cudnn_plans(context, problem, layout, most_each, plans);
  }
  for (ConvolutionPlanPtr& plan : stem_plans(context, problem)) plans.push_back(std::move(plan));
  if (!is_matmul(problem)) return plans;
  const int most = std::min(static_cast<int>(most_each), most_matmul_algorithms);
  for (int algorithm = 0; algorithm < most; ++algorithm) {
    auto plan = matmul_plan(context, problem, algorithm);
    if (plan == nullptr) break;
    plans.push_back(std::move(plan));
  }
  return plans;
}

ConvolutionPlanPtr restore_as_it_is(CudaContext& context, const ConvolutionProblem& problem,
                                    std::string_view name) {
  if (has_own_plan(problem)) {
    auto own = depthwise_plan(context, problem);
    if (own->name() == name) return own;
  }
  for (const OperandLayout& layout : operand_layouts(problem)) {
    const std::string prefix = prefix_of(layout);
    if (name.starts_with(prefix)) {
      return restore_cudnn_plan(context, problem, layout, name.substr(prefix.size()));
    }
  }
  for (ConvolutionPlanPtr& plan : stem_plans(context, problem)) {
    if (plan->name() == name) return std::move(plan);
  }
  if (!is_matmul(problem)) return nullptr;
  for (int algorithm = 0; algorithm < most_matmul_algorithms; ++algorithm) {
    auto plan = matmul_plan(context, problem, algorithm);
    if (plan == nullptr) break;
    if (plan->name() == name) return plan;
  }
  return nullptr;
}

}  // namespace

std::vector<OperandLayout> operand_layouts(const ConvolutionProblem& problem) {
  const bool half = problem.dtype() != DType::f32;
  std::vector<OperandLayout> shapes{{problem.channels, problem.out_channels, problem.dtype()}};
  if (problem.adds) return shapes;  // a copy of the result would have to be made before it, too
  const auto add = [&](std::int64_t channels, std::int64_t out_channels) {
    const OperandLayout layout{channels, out_channels, problem.dtype()};
    if (std::ranges::find(shapes, layout) == shapes.end()) shapes.push_back(layout);
  };
  // Tensor cores alone gain by it, and channels of zeros would mix up groups.
  if (problem.groups == 1 && problem.precision != Precision::fp32) {
    const std::int64_t word = half ? 8 : 4;
    add(round_up(problem.channels, word), round_up(problem.out_channels, word));
    if (problem.channels <= 4) add(4, round_up(problem.out_channels, word));
  }
  if (!half || problem.operation != ConvolutionOperation::weight_gradient) return shapes;
  std::vector<OperandLayout> layouts;
  for (OperandLayout layout : shapes) {
    layouts.push_back(layout);
    layout.result = DType::f32;
    layouts.push_back(layout);
  }
  return layouts;
}

std::vector<ConvolutionPlanPtr> candidate_plans(CudaContext& context,
                                                const ConvolutionProblem& problem,
                                                std::size_t most_each) {
  std::vector<ConvolutionPlanPtr> plans = plans_as_it_is(context, problem, most_each);
  for (const ConvolutionRewritePtr& rewrite : convolution_rewrites(problem)) {
    for (ConvolutionPlanPtr& plan : plans_as_it_is(context, rewrite->problem(), most_each)) {
      plans.push_back(rewritten_plan(context, rewrite, std::move(plan)));
    }
  }
  if (problem.adds) {
    for (auto& plain : candidate_plans(context, without_sum(problem), most_each)) {
      plans.push_back(summed_plan(context, problem, std::move(plain)));
    }
  }
  if (plans.empty()) plans.push_back(direct_convolution_plan(context, problem));
  return plans;
}

ConvolutionPlanPtr restore_plan(CudaContext& context, const ConvolutionProblem& problem,
                                std::string_view name) {
  if (problem.adds && name.starts_with(summed_prefix)) {
    name.remove_prefix(summed_prefix.size());
    auto plain = restore_plan(context, without_sum(problem), name);
    return plain == nullptr ? nullptr : summed_plan(context, problem, std::move(plain));
  }
  for (const ConvolutionRewritePtr& rewrite : convolution_rewrites(problem)) {
    const std::string prefix = rewrite->name() + " ";
    if (!name.starts_with(prefix)) continue;
    auto plan = restore_as_it_is(context, rewrite->problem(), name.substr(prefix.size()));
    return plan == nullptr ? nullptr : rewritten_plan(context, rewrite, std::move(plan));
  }
  if (auto plan = restore_as_it_is(context, problem, name)) return plan;
  auto direct = direct_convolution_plan(context, problem);
  return direct->name() == name ? direct : nullptr;
}

}  // namespace tandem
