#include "plain_blocks.h"

#include <fmt/format.h>

#include "graph/block_builder.h"

namespace tandem {

int build_plain_stage(const BlockRequest& request) {
  const std::int64_t count = request.table.get_int("count", 1, 1000);
  const std::int64_t out = request.table.get_int("out", 1, 65536);
  std::int64_t stride = request.table.get_int_or("stride", 1, 1, 64);
  int last = request.input;
  for (std::int64_t i = 0; i < count; ++i) {
    BlockBuilder block(request.graph, fmt::format("{}.{}", request.name, i));
    last =
        block.conv("conv", last,
                   {.out_channels = out, .window = {.kernel = 3, .stride = stride, .padding = 1}});
    last = block.activation("relu", Activation::relu, block.norm("norm", last));
    stride = 1;
  }
  return last;
}

}  // namespace tandem
