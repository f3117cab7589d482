#include "graph/mbconv_blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/block_builder.h"
#include "layers/add.h"
#include "layers/channel_scale.h"
#include "layers/dropout.h"
#include "layers/pooling/pool2d.h"

namespace tandem {
namespace {

struct MbConv {
  std::int64_t out = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t expand = 6;
  double drop_rate = 0.0;
};

/// x times sigmoid(fc2(silu(fc1(mean of x)))).
int squeeze_excitation(BlockBuilder& builder, const std::string& name, int input,
                       std::int64_t squeezed) {
  int last = builder.add(name + ".avgpool", std::make_shared<GlobalAveragePool>(true), {input});
  last = builder.conv(name + ".fc1", last, {.out_channels = squeezed, .bias = true});
  last = builder.activation(name + ".activation", Activation::silu, last);
  last = builder.conv(name + ".fc2", last, {.out_channels = builder.channels(input), .bias = true});
  last = builder.activation(name + ".scale_activation", Activation::sigmoid, last);
  return builder.add(name + ".scale", std::make_shared<ChannelScale>(), {input, last});
}

int mbconv(BlockBuilder builder, int input, const MbConv& block) {
  const std::int64_t inside = builder.channels(input);
  const std::int64_t hidden = inside * block.expand;
  int last = input;
  int index = 0;
  const auto next_name = [&] { return fmt::format("block.{}", index++); };
  if (block.expand != 1) {
    last =
        builder.conv_norm_activation(next_name(), last, {.out_channels = hidden}, Activation::silu);
  }
  last = builder.conv_norm_activation(
      next_name(), last,
      {.out_channels = hidden,
       .window = {.kernel = block.kernel, .stride = block.stride, .padding = block.kernel / 2},
       .groups = hidden},
      Activation::silu);
  last = squeeze_excitation(builder, next_name(), last, std::max<std::int64_t>(1, inside / 4));
  last = builder.conv_norm_activation(next_name(), last, {.out_channels = block.out},
                                      Activation::none);
  if (block.stride != 1 || inside != block.out) return last;
  if (block.drop_rate > 0.0) {
    last = builder.add("stochastic_depth",
                       std::make_shared<Dropout>(Dropout::Unit::image, block.drop_rate), {last});
  }
  return builder.add("add", std::make_shared<Add>(), {last, input});
}

}  // namespace

int build_mbconv_stage(const BlockRequest& request) {
  const ConfigTable& table = request.table;
  const std::int64_t count = table.get_int("count", 1, 1000);
  MbConv block{.out = table.get_int("out", 1, 65536),
               .kernel = table.get_int_or("kernel", 3, 1, 63),
               .stride = table.get_int_or("stride", 1, 1, 64),
               .expand = table.get_int_or("expand", 6, 1, 64)};
  if (block.kernel % 2 == 0) table.fail("kernel", "needs to be odd: the size is to stay");
  const std::int64_t first = table.get_int_or("first_block", 0, 0, 1'000'000);
  const std::int64_t blocks = table.get_int_or("blocks", first + count, first + count, 1'000'000);
  int last = request.input;
  for (std::int64_t i = 0; i < count; ++i) {
    block.drop_rate =
        request.stochastic_depth * static_cast<double>(first + i) / static_cast<double>(blocks);
    last = mbconv(BlockBuilder(request.graph, fmt::format("{}.{}", request.name, i)), last, block);
    block.stride = 1;
  }
  return last;
}

}  // namespace tandem
