#include "graph/inverted_residual_blocks.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/block_builder.h"
#include "layers/add.h"

namespace tandem {
namespace {

/// "features.2" as its two parts.
struct NumberedName {
  std::string prefix;
  std::int64_t number = 0;
};

NumberedName split_name(const BlockRequest& request) {
  const std::string& name = request.name;
  const std::size_t dot = name.rfind('.');
  NumberedName split;
  const char* end = name.data() + name.size();
  const char* digits = dot == std::string::npos ? end : name.data() + dot + 1;
  const auto [stop, code] = std::from_chars(digits, end, split.number);
  if (code != std::errc() || stop != end || split.number < 0) {
    request.table.fail("name", "needs to end in its first block's number, as features.2 does");
  }
  split.prefix = name.substr(0, dot);
  return split;
}

int inverted_residual(BlockBuilder builder, int input, std::int64_t out, std::int64_t stride,
                      std::int64_t expand) {
  const std::int64_t inside = builder.channels(input);
  const std::int64_t hidden = inside * expand;
  int last = input;
  int index = 0;
  const auto next_name = [&] { return fmt::format("conv.{}", index++); };
  if (expand != 1) {
    last = builder.conv_norm_activation(next_name(), last, {.out_channels = hidden},
                                        Activation::relu6);
  }
  last = builder.conv_norm_activation(next_name(), last,
                                      {.out_channels = hidden,
                                       .window = {.kernel = 3, .stride = stride, .padding = 1},
                                       .groups = hidden},
                                      Activation::relu6);
  last = builder.conv(next_name(), last, {.out_channels = out});
  last = builder.norm(next_name(), last);
  if (stride != 1 || inside != out) return last;
  return builder.add("add", std::make_shared<Add>(), {last, input});
}

}  // namespace

int build_inverted_residual_stage(const BlockRequest& request) {
  const std::int64_t count = request.table.get_int("count", 1, 1000);
  const std::int64_t out = request.table.get_int("out", 1, 65536);
  const std::int64_t stride = request.table.get_int_or("stride", 1, 1, 64);
  const std::int64_t expand = request.table.get_int_or("expand", 6, 1, 64);
  const NumberedName first = split_name(request);
  int last = request.input;
  for (std::int64_t i = 0; i < count; ++i) {
    BlockBuilder builder(request.graph, fmt::format("{}.{}", first.prefix, first.number + i));
    last = inverted_residual(std::move(builder), last, out, i == 0 ? stride : 1, expand);
  }
  return last;
}

}  // namespace tandem
