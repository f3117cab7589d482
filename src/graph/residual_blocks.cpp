#include "graph/residual_blocks.h"

#include <fmt/format.h>

#include <memory>

#include "layers/add.h"
#include "layers/batch_norm.h"
#include "layers/conv2d.h"
#include "layers/relu.h"

namespace tandem {
namespace {

/// Adds the layers of one residual block below `prefix`.
class BlockBuilder {
 public:
  BlockBuilder(Graph& graph, std::string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

  int conv(const std::string& name, int input, std::int64_t out, std::int64_t kernel,
           std::int64_t stride) {
    const Conv2dOptions options{
        .out_channels = out, .window = {.kernel = kernel, .stride = stride, .padding = kernel / 2}};
    return add(name, std::make_shared<Conv2d>(options), {input});
  }
  int norm(const std::string& name, int input) {
    return add(name, std::make_shared<BatchNorm>(BatchNormOptions{}), {input});
  }
  int relu(const std::string& name, int input) {
    return add(name, std::make_shared<Relu>(), {input});
  }
  /// relu(main + shortcut), the shortcut a projection where `main` has another shape than `input`.
  int join(int main, int input, std::int64_t out, std::int64_t stride) {
    int shortcut = input;
    if (stride != 1 || channels(input) != out) {
      shortcut = norm("downsample.1", conv("downsample.0", input, out, 1, stride));
    }
    return relu("relu", add("add", std::make_shared<Add>(), {main, shortcut}));
  }

 private:
  int add(const std::string& name, LayerPtr layer, std::vector<int> inputs) {
    return graph_.add(fmt::format("{}.{}", prefix_, name), std::move(layer), std::move(inputs));
  }
  std::int64_t channels(int node) const {
    return node == Node::model_input ? graph_.input()[3]
                                     : graph_.output_shape(static_cast<std::size_t>(node), 1)[3];
  }

  Graph& graph_;
  std::string prefix_;
};

int basic_block(BlockBuilder block, int input, std::int64_t out, std::int64_t stride) {
  const int first = block.norm("bn1", block.conv("conv1", input, out, 3, stride));
  const int second = block.norm("bn2", block.conv("conv2", block.relu("relu1", first), out, 3, 1));
  return block.join(second, input, out, stride);
}

int bottleneck(BlockBuilder block, int input, std::int64_t width, std::int64_t stride) {
  const std::int64_t out = 4 * width;
  const int first = block.norm("bn1", block.conv("conv1", input, width, 1, 1));
  const int second =
      block.norm("bn2", block.conv("conv2", block.relu("relu1", first), width, 3, stride));
  const int third = block.norm("bn3", block.conv("conv3", block.relu("relu2", second), out, 1, 1));
  return block.join(third, input, out, stride);
}

int build_stage(Graph& graph, const std::string& name, int input, const ConfigTable& table,
                int (*block)(BlockBuilder, int, std::int64_t, std::int64_t)) {
  const std::int64_t count = table.get_int("count", 1, 1000);
  const std::int64_t out = table.get_int("out", 1, 65536);
  const std::int64_t stride = table.get_int_or("stride", 1, 1, 64);
  for (std::int64_t i = 0; i < count; ++i) {
    input =
        block(BlockBuilder(graph, fmt::format("{}.{}", name, i)), input, out, i == 0 ? stride : 1);
  }
  return input;
}

}  // namespace

int build_basic_stage(Graph& graph, const std::string& name, int input, const ConfigTable& table) {
  return build_stage(graph, name, input, table, &basic_block);
}

int build_bottleneck_stage(Graph& graph, const std::string& name, int input,
                           const ConfigTable& table) {
  return build_stage(graph, name, input, table, &bottleneck);
}

}  // namespace tandem
