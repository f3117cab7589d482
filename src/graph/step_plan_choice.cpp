#include "graph/step_plan_choice.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "device/kernel_choices.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

// As they are kept.
constexpr std::string_view beside_backward = "beside backward";
constexpr std::string_view in_line = "in line";

/// What it must gain to go without side work: as much as most steps differ from one measurement to
/// the next. Of those that differ by more, as ResNet-50 at 224 px by 1 %, either way is as good.
constexpr double least_gain = 0.005;

/// What makes a step the same work as another one.
std::string key_of(const Graph& graph, const ParameterStore& parameters,
                   const StepPlanOptions& options) {
  std::string text = fmt::format("{} {} {} {}", options.accumulation, options.freeze_statistics,
                                 options.batch_groups, static_cast<int>(options.norm_deferral));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    text +=
        fmt::format(";{} {} {}", node.name, node.layer->kind(), graph.output_shape(i, 1).text());
    for (const int input : node.inputs) text += fmt::format(" {}", input);
    for (const std::string& name : node.parameters) {
      const std::size_t index = parameters.parameter_index(name);
      text += fmt::format(" {}{}", parameters.parameters()[index].shape.text(),
                          parameters.is_trained(index) ? "" : " frozen");
    }
  }
  return fmt::format("step of {} {} {} {:016x}", file_name_of(graph.name()),
                     with_batch(graph.input(), options.batch).text(), name_of(options.precision),
                     hash_text(text));
}

/// Makes plans of one step, and the choice among them.
class SideWorkChoice {
 public:
  SideWorkChoice(const Graph& graph, ParameterStore& parameters, AnyContext& context,
                 const StepPlanOptions& options, KernelChoices& choices)
      : graph_(graph),
        parameters_(parameters),
        context_(context),
        options_(options),
        choices_(choices),
        key_(key_of(graph, parameters, options)) {}

  std::unique_ptr<StepPlan> plan() {
    if (!choices_.find(key_)) {
      make(SideWork::by_size);
      if (plan_->side_layers() == 0) return std::move(plan_);
      // Where one rank chooses for all, the others wait for it here. It measures on this thread, on
      // which layers may tell of its progress.
      choices_.make([] {});
      if (!choices_.find(key_)) measure();
    }
    const bool aside = choices_.find(key_) != in_line;
    make(aside ? SideWork::by_size : SideWork::never);
    return std::move(plan_);
  }

 private:
  void make(SideWork side_work) {
    if (plan_ && options_.side_work == side_work) return;
    plan_.reset();  // there may be memory for one alone
    options_.side_work = side_work;
    plan_ = std::make_unique<StepPlan>(graph_, parameters_, context_, options_);
  }

  double time() {
    return std::visit(
        [this](auto& device) {
          return time_step(device, graph_, context_, *plan_, options_.after_layer);
        },
        context_);
  }

  void measure() {
    HostTensor statistics(context_, parameters_.all_buffers());
    try {
      const double aside = time();
      make(SideWork::never);
      const double alone = time();
      const bool gains = alone < (1.0 - least_gain) * aside;
      choices_.record(key_, std::string(gains ? in_line : beside_backward));
      log_debug("{}: {:.4f} ms with weight gradients beside backward, {:.4f} ms without", key_,
                1e3 * aside, 1e3 * alone);
    } catch (const OutOfMemory& error) {
      log_debug("{} is not timed: {}", key_, error.what());
      // For the ranks that wait for this one, which may share its device.
      choices_.remember(key_, std::string(beside_backward));
    }
    statistics.write_back();
  }

  const Graph& graph_;
  ParameterStore& parameters_;
  AnyContext& context_;
  StepPlanOptions options_;
  KernelChoices& choices_;
  std::string key_;
  std::unique_ptr<StepPlan> plan_;  // of the side work that the options have
};

}  // namespace

std::unique_ptr<StepPlan> make_step_plan(const Graph& graph, ParameterStore& parameters,
                                         AnyContext& context, const StepPlanOptions& options) {
  KernelChoices* const choices = kernel_choices(context);
  const bool by_timing = options.side_work == SideWork::by_timing && options.training &&
                         options.rank_sum == nullptr && choices != nullptr &&
                         std::visit([](auto& device) { return times_steps(device); }, context);
  if (by_timing) return SideWorkChoice(graph, parameters, context, options, *choices).plan();
  return std::make_unique<StepPlan>(graph, parameters, context, options);
}

bool times_steps(const CpuContext& /*device*/) { return false; }

double time_step(CpuContext& /*device*/, const Graph& /*graph*/, AnyContext& /*context*/,
                 StepPlan& /*plan*/, const std::function<void()>& /*between*/) {
  throw Error("steps on a CPU are not timed");
}

}  // namespace tandem
