// Trains a small network with a layer that Tandem does not have, through the public interface:
// a Layer, a Graph, a StepPlan and an optimizer. Ends with 0 where the network learned.

#include <fmt/core.h>

#include <memory>
#include <vector>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/step_plan.h"
#include "layers/convolution/conv2d.h"
#include "layers/linear/linear.h"
#include "layers/normalisation/batch_norm.h"
#include "layers/pooling/pool2d.h"
#include "leaky_relu.h"
#include "optim/sgd.h"

namespace {

using namespace tandem;

constexpr std::int64_t batch = 16;
constexpr std::int64_t side = 8;
constexpr std::int64_t classes = 2;

Graph make_model() {
  Graph graph("custom", {1, side, side, 1});
  int last = graph.add("conv1",
                       std::make_shared<Conv2d>(
                           Conv2dOptions{.out_channels = 8, .window = {.kernel = 3, .padding = 1}}),
                       {Node::model_input});
  last = graph.add("bn1", std::make_shared<BatchNorm>(BatchNormOptions{}), {last});
  last = graph.add("act", std::make_shared<LeakyRelu>(0.1F), {last});
  last = graph.add("avgpool", std::make_shared<GlobalAveragePool>(), {last});
  graph.add("fc", std::make_shared<Linear>(classes, true), {last});
  return fuse(graph);
}

/// Stripes down (class 0) or across (class 1) under noise.
void make_batch(std::uint64_t seed, std::vector<float>& images, std::vector<std::int32_t>& labels) {
  RandomStream random(seed, "stripes");
  for (std::int64_t n = 0; n < batch; ++n) {
    const auto label = static_cast<std::int32_t>(n % classes);
    labels[static_cast<std::size_t>(n)] = label;
    for (std::int64_t i = 0; i < side * side; ++i) {
      const std::int64_t position = label == 0 ? i % side : i / side;
      images[static_cast<std::size_t>(n * side * side + i)] =
          (position % 2 == 0 ? 1.0F : -1.0F) + random.uniform(-0.5F, 0.5F);
    }
  }
}

std::unique_ptr<Optimizer> make_optimizer(AnyContext& context, const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.parameters()) {
    slices.push_back({.offset = parameter.offset, .elements = parameter.shape.elements()});
  }
  return std::make_unique<Sgd>(context, store.all_values().elements(), slices,
                               SgdOptions{.momentum = 0.9F});
}

}  // namespace

int main() {
  AnyContext context(CpuContext(1));
  const Graph graph = make_model();
  ParameterStore store(graph, context, /*with_gradients=*/true);
  store.initialize(/*seed=*/1);
  StepPlan plan(graph, store, context, {.batch = batch, .training = true});
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(context, store);

  std::vector<float> pixels(static_cast<std::size_t>(batch * side * side));
  std::vector<std::int32_t> targets(static_cast<std::size_t>(batch));
  const Tensor images(pixels.data(), {batch, side, side, 1});
  const Tensor labels(targets.data(), {batch}, DType::i32);
  LossSums sums;
  for (std::uint64_t step = 0; step < 20; ++step) {
    make_batch(step, pixels, targets);
    sums = plan.forward(images, {labels}, batch);
    plan.backward(/*accumulate=*/false, {});
    optimizer->step(store.all_values(), store.all_gradients(), {.learning_rate = 0.1F});
    if (step % 5 == 0 || step == 19) {
      fmt::print("step {:2}  loss {:.4f}  right {} of {}\n", step, sums.loss / batch, sums.top1,
                 sums.samples);
    }
  }
  return sums.top1 == batch ? 0 : 1;
}
