#include "graph/shuffle_blocks.h"

#include <fmt/format.h>

#include "graph/block_builder.h"
#include "layers/channel_slice.h"
#include "layers/shuffle_join.h"

namespace tandem {
namespace {

/// The parts of one unit of `half` channels a branch.
class UnitBuilder : public BlockBuilder {
 public:
  UnitBuilder(Graph& graph, std::string prefix, std::int64_t half)
      : BlockBuilder(graph, std::move(prefix)), half_(half) {}

  int halving_unit(int input) {
    int left = depthwise("branch1.0", input, 2);
    left = pointwise("branch1.2", norm("branch1.1", left));
    return join(relu("branch1.4", norm("branch1.3", left)), branch2(input, 2));
  }
  int unit(int input) {
    const int half = add("half", std::make_shared<ChannelSlice>(half_, half_), {input});
    return join(input, branch2(half, 1));
  }

 private:
  int branch2(int input, std::int64_t stride) {
    int last = relu("branch2.2", norm("branch2.1", pointwise("branch2.0", input)));
    last = norm("branch2.4", depthwise("branch2.3", last, stride));
    return relu("branch2.7", norm("branch2.6", pointwise("branch2.5", last)));
  }
  int pointwise(const std::string& name, int input) {
    return conv(name, input, {.out_channels = half_, .init = ConvInit::fan_in});
  }
  int depthwise(const std::string& name, int input, std::int64_t stride) {
    const std::int64_t own = channels(input);
    return conv(name, input,
                {.out_channels = own,
                 .window = {.kernel = 3, .stride = stride, .padding = 1},
                 .groups = own,
                 .init = ConvInit::fan_in});
  }
  int relu(const std::string& name, int input) { return activation(name, Activation::relu, input); }
  int join(int first, int second) {
    return add("join", std::make_shared<ShuffleJoin>(), {first, second});
  }

  std::int64_t half_;
};

}  // namespace

int build_shuffle_stage(const BlockRequest& request) {
  const std::int64_t count = request.table.get_int("count", 1, 1000);
  const std::int64_t out = request.table.get_int("out", 2, 65536);
  if (out % 2 != 0) request.table.fail("out", "the two branches need an even number of channels");
  int last = request.input;
  for (std::int64_t i = 0; i < count; ++i) {
    UnitBuilder builder(request.graph, fmt::format("{}.{}", request.name, i), out / 2);
    last = i == 0 ? builder.halving_unit(last) : builder.unit(last);
  }
  return last;
}

}  // namespace tandem
