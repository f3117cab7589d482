#include "graph/residual_blocks.h"

#include <fmt/format.h>

#include "graph/block_builder.h"
#include "layers/add.h"

namespace tandem {
namespace {

/// The parts of one residual block.
class ResidualBuilder : public BlockBuilder {
 public:
  using BlockBuilder::BlockBuilder;

  int conv(const std::string& name, int input, std::int64_t out, std::int64_t kernel,
           std::int64_t stride) {
    return BlockBuilder::conv(
        name, input,
        {.out_channels = out,
         .window = {.kernel = kernel, .stride = stride, .padding = kernel / 2}});
  }
  int relu(const std::string& name, int input) { return activation(name, Activation::relu, input); }
  /// relu(main + shortcut), the shortcut a projection where `main` has another shape than `input`.
  int join(int main, int input, std::int64_t out, std::int64_t stride) {
    int shortcut = input;
    if (stride != 1 || channels(input) != out) {
      shortcut = norm("downsample.1", conv("downsample.0", input, out, 1, stride));
    }
    return relu("relu", add("add", std::make_shared<Add>(), {main, shortcut}));
  }
};

int basic_block(ResidualBuilder block, int input, std::int64_t out, std::int64_t stride) {
  const int first = block.norm("bn1", block.conv("conv1", input, out, 3, stride));
  const int second = block.norm("bn2", block.conv("conv2", block.relu("relu1", first), out, 3, 1));
  return block.join(second, input, out, stride);
}

int bottleneck(ResidualBuilder block, int input, std::int64_t width, std::int64_t stride) {
  const std::int64_t out = 4 * width;
  const int first = block.norm("bn1", block.conv("conv1", input, width, 1, 1));
  const int second =
      block.norm("bn2", block.conv("conv2", block.relu("relu1", first), width, 3, stride));
  const int third = block.norm("bn3", block.conv("conv3", block.relu("relu2", second), out, 1, 1));
  return block.join(third, input, out, stride);
}

int build_stage(const BlockRequest& request,
                int (*block)(ResidualBuilder, int, std::int64_t, std::int64_t)) {
  const std::int64_t count = request.table.get_int("count", 1, 1000);
  const std::int64_t out = request.table.get_int("out", 1, 65536);
  const std::int64_t stride = request.table.get_int_or("stride", 1, 1, 64);
  int last = request.input;
  for (std::int64_t i = 0; i < count; ++i) {
    last = block(ResidualBuilder(request.graph, fmt::format("{}.{}", request.name, i)), last, out,
                 i == 0 ? stride : 1);
  }
  return last;
}

}  // namespace

int build_basic_stage(const BlockRequest& request) { return build_stage(request, &basic_block); }

int build_bottleneck_stage(const BlockRequest& request) {
  return build_stage(request, &bottleneck);
}

}  // namespace tandem
