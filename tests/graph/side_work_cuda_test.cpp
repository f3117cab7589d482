#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>

#include "device/cuda_check.h"
#include "device/cuda_graph.h"
#include "device/memory.h"
#include "graph/device_batch.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "graph/untimed_kernels.h"
#include "support/repeats.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 16;

/// Forward and backward of one batch, or of two whose gradients are added.
class Passes {
 public:
  Passes(AnyContext& context, const Graph& graph, Precision precision, SideWork side_work,
         bool accumulate)
      : context_(context),
        accumulate_(accumulate),
        store_(graph, context, true, {}, precision),
        plan_(graph, store_, context,
              {.batch = batch_size,
               .training = true,
               .precision = precision,
               .accumulation = accumulate,
               .side_work = side_work}),
        first_(context, graph, precision, batch_size, 1),
        second_(context, graph, precision, batch_size, 2),
        sums_(context, 4 * sizeof(float), "a test"),
        told_(context, store_.all_gradients().bytes(), "a test") {
    store_.initialize(1);
  }

  void enqueue() {
    enqueue_pass(first_, false);
    if (accumulate_) enqueue_pass(second_, true);
  }
  void forget() {
    set_to_zero(context_, store_.all_gradients().raw(), store_.all_gradients().bytes());
    set_to_zero(context_, told_.data(), told_.bytes());
  }
  std::vector<float> gradients() const { return values_of(store_.all_gradients()); }
  /// The gradients as they were when backward told of them.
  std::vector<float> told() const {
    return values_of(Tensor(told_.data(), store_.all_gradients().shape()));
  }
  std::size_t side_layers() const { return plan_.side_layers(); }

 private:
  CudaContext& cuda() const { return std::get<CudaContext>(context_); }
  std::vector<float> values_of(const Tensor& tensor) const {
    return copy_of(HostTensor(context_, tensor).tensor());
  }

  void enqueue_pass(const DeviceBatch& batch, bool accumulate) {
    plan_.enqueue_forward(batch.images(), batch.targets(), plan_.batch(), {.seed = 1}, nullptr,
                          Tensor(sums_.data(), {4}));
    plan_.backward(accumulate, [&](std::span<const std::size_t> parameters) {
      for (const std::size_t index : parameters) {
        const Tensor gradient = store_.gradient(index);
        const auto offset = static_cast<std::size_t>(store_.parameters()[index].offset);
        TANDEM_CUDA_CHECK(cudaMemcpyAsync(told_.data() + offset * sizeof(float), gradient.raw(),
                                          gradient.bytes(), cudaMemcpyDeviceToDevice,
                                          cuda().stream()));
      }
    });
  }

  AnyContext& context_;
  bool accumulate_;
  ParameterStore store_;
  StepPlan plan_;
  DeviceBatch first_;
  DeviceBatch second_;
  Arena sums_;
  Arena told_;
};

class SideWorkCudaTest : public testing::Test {
 protected:
  /// Gradients by side work have the bits of those without, in a graph and out of it.
  void expect_same_gradients(const Graph& graph, Precision precision, bool accumulate) {
    SCOPED_TRACE(graph.name() + " " + std::string(name_of(precision)) +
                 (accumulate ? " accumulating" : ""));
    Passes plain(context_, graph, precision, SideWork::never, accumulate);
    EXPECT_EQ(plain.side_layers(), 0U);
    plain.enqueue();
    const std::vector<float> wanted = plain.gradients();
    ASSERT_TRUE(std::ranges::any_of(wanted, [](float value) { return value != 0.0F; }));
    ASSERT_TRUE(std::ranges::all_of(wanted, [](float value) { return std::isfinite(value); }));
    EXPECT_EQ(plain.told(), wanted);

    Passes passes(context_, graph, precision, SideWork::always, accumulate);
    EXPECT_GT(passes.side_layers(), 0U);
    for (int i = 0; i < repeats(5); ++i) {
      passes.forget();
      passes.enqueue();
      EXPECT_EQ(passes.gradients(), wanted) << "pass " << i;
      EXPECT_EQ(passes.told(), wanted) << "pass " << i;
    }
    CudaGraph captured(std::get<CudaContext>(context_), [&] { passes.enqueue(); });
    for (int i = 0; i < repeats(20); ++i) {
      passes.forget();
      captured.launch();
      EXPECT_EQ(passes.gradients(), wanted) << "launch " << i;
      EXPECT_EQ(passes.told(), wanted) << "launch " << i;
    }
  }

  UntimedKernels untimed_;
  AnyContext context_{std::in_place_type<CudaContext>, 0};
};

Graph small_images(const std::string& model) {
  return fuse(load_model(find_model(model), {.classes = 10, .size = 32}));
}

/// One test each, which are short enough for a tool that makes kernels slow.
using ModelPass = std::tuple<std::string, Precision, bool>;

class SideWorkOfModelCudaTest : public SideWorkCudaTest,
                                public testing::WithParamInterface<ModelPass> {
 protected:
  static Graph model(const std::string& name) {
    if (name == "smooth") return smooth_model();
    return name == "resnet8" ? zoo_model("resnet8") : small_images(name);
  }
};

TEST_P(SideWorkOfModelCudaTest, LeavesTheBitsOfGradients) {
  const auto& [name, precision, accumulate] = GetParam();
  expect_same_gradients(model(name), precision, accumulate);
}

std::string name_of_pass(const testing::TestParamInfo<ModelPass>& each) {
  const auto& [name, precision, accumulate] = each.param;
  return name + "_" + std::string(name_of(precision)) + (accumulate ? "_accumulating" : "");
}

INSTANTIATE_TEST_SUITE_P(Zoo, SideWorkOfModelCudaTest,
                         testing::Combine(testing::Values("smooth", "resnet8", "resnet18",
                                                          "mobilenet_v2", "shufflenet_v2_x1_0"),
                                          testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Bool()),
                         name_of_pass);

TEST_F(SideWorkCudaTest, IsForLayersThatFitInTheCache) {
  const Graph graph = small_images("resnet18");
  Passes passes(context_, graph, Precision::bf16, SideWork::by_size, false);
  // All 20 convolutions but the stem, which comes last, and the classifier.
  EXPECT_EQ(passes.side_layers(), 20U);
}

}  // namespace
}  // namespace tandem
