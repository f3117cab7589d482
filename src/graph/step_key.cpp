#include "graph/step_key.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "device/kernel_choices.h"

namespace tandem {

std::string step_key(const Graph& graph, const ParameterStore& parameters,
                     const StepPlanOptions& options) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {}", options.accumulation, options.freeze_statistics,
                  static_cast<int>(options.gradient_memory), options.batch_groups,
                  static_cast<int>(options.side_work), static_cast<int>(options.norm_deferral),
                  static_cast<int>(options.norm_kernels));
  for (const ParameterRange& group : options.gradient_groups)
    text += fmt::format(" {}", group.last);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    text += fmt::format(";{} {} {} {}", node.name, node.layer->kind(), node.layer->options_text(),
                        graph.output_shape(i, 1).text());
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

}  // namespace tandem
