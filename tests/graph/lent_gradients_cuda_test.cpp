#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "device/cuda_graph.h"
#include "device/memory.h"
#include "graph/device_batch.h"
#include "graph/fusion.h"
#include "graph/late_queue.h"
#include "graph/model_file.h"
#include "graph/untimed_kernels.h"
#include "optim/sgd.h"
#include "tensor/host_tensor.h"

// Captured steps whose activations lie in the gradients' memory, and between which their own memory
// is written over, against steps that leave the gradients' memory alone and have their own for
// themselves.

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 16;

std::unique_ptr<Optimizer> make_sgd(AnyContext& context, const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    slices.push_back({.offset = parameter.offset, .elements = parameter.shape.elements()});
  }
  return std::make_unique<Sgd>(context, store.all_gradients().elements(), slices,
                               SgdOptions{.momentum = 0.9F});
}

/// What one step leaves behind.
struct Results {
  std::vector<float> sums;
  std::vector<float> gradients;
  std::vector<float> values;
  std::vector<float> statistics;
  bool operator==(const Results&) const = default;
};

/// Steps on one batch.
class Steps {
 public:
  Steps(AnyContext& context, const Graph& graph, bool lend, bool late)
      : context_(context),
        store_(graph, context, true, {}, Precision::bf16),
        plan_(graph, store_, context,
              {.batch = batch_size,
               .training = true,
               .precision = Precision::bf16,
               .lend_gradients = lend,
               .side_work = SideWork::always,
               .side_queue = late ? std::make_shared<LateQueue>() : nullptr}),
        optimizer_(make_sgd(context, store_)),
        batch_(context, graph, Precision::bf16, batch_size, 1),
        sums_(context, 4 * sizeof(float), "a test") {
    store_.initialize(1);
    // NaN, but for the gaps; backward must write every one.
    HostTensor gradients(context, store_.all_gradients());
    for (const Parameter& parameter : store_.trained()) {
      std::fill_n(gradients.tensor().data<float>() + parameter.offset, parameter.shape.elements(),
                  NAN);
    }
    gradients.write_back();
  }

  void enqueue() {
    plan_.enqueue_forward(batch_.images(), batch_.targets(), {.seed = 1}, nullptr,
                          Tensor(sums_.data(), {4}));
    plan_.backward(false, {});
    optimizer_->step(store_.trained_values(), store_.all_gradients(), {.learning_rate = 0.01F});
    store_.update_weights();
  }
  Results results() const {
    return {.sums = values_of(Tensor(sums_.data(), {4})),
            .gradients = values_of(store_.all_gradients()),
            .values = values_of(store_.all_values()),
            .statistics = values_of(store_.all_buffers())};
  }
  bool gaps_are_zero() const {
    std::vector<float> gradients = values_of(store_.all_gradients());
    for (const Parameter& parameter : store_.trained()) {
      std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(parameter.offset),
                  parameter.shape.elements(), 0.0F);
    }
    return std::ranges::all_of(gradients, [](float value) { return value == 0.0F; });
  }
  const StepPlan& plan() const { return plan_; }
  /// As an evaluation between two steps may, but with NaN.
  void overwrite_memory() {
    const std::span<std::byte> memory = plan_.memory();
    const std::vector<std::byte> ones(memory.size(), std::byte{0xff});
    copy_to_device(context_, ones.data(), ones.size(), memory.data());
    synchronize(context_);
  }

 private:
  std::vector<float> values_of(const Tensor& tensor) const {
    return copy_of(HostTensor(context_, tensor).tensor());
  }

  AnyContext& context_;
  ParameterStore store_;
  StepPlan plan_;
  std::unique_ptr<Optimizer> optimizer_;
  DeviceBatch batch_;
  Arena sums_;
};

class LentGradientsCudaTest : public testing::Test {
 protected:
  UntimedKernels untimed_;
  AnyContext context_{std::in_place_type<CudaContext>, 0};
};

TEST_F(LentGradientsCudaTest, LeaveTheBits) {
  for (const char* model : {"resnet18", "shufflenet_v2_x1_0"}) {
    const Graph graph = fuse(load_model(find_model(model), {.classes = 10, .size = 32}));
    for (const bool late : {false, true}) {
      SCOPED_TRACE(std::string(model) + (late ? " with late side work" : ""));
      Steps own(context_, graph, false, late);
      Steps lent(context_, graph, true, late);
      EXPECT_GT(lent.plan().side_layers(), 0U);
      EXPECT_LT(lent.plan().activation_bytes(), own.plan().activation_bytes());
      // Outside of a graph first, as in training.
      own.enqueue();
      lent.enqueue();
      synchronize(context_);
      CudaGraph own_graph(std::get<CudaContext>(context_), [&] { own.enqueue(); });
      CudaGraph lent_graph(std::get<CudaContext>(context_), [&] { lent.enqueue(); });
      for (int launch = 0; launch < 8; ++launch) {
        own_graph.launch();
        lent.overwrite_memory();
        lent_graph.launch();
        const Results wanted = own.results();
        ASSERT_TRUE(std::ranges::all_of(wanted.gradients,
                                        [](float gradient) { return std::isfinite(gradient); }));
        EXPECT_EQ(lent.results().sums, wanted.sums) << "launch " << launch;
        EXPECT_TRUE(lent.results() == wanted) << "launch " << launch;
        EXPECT_TRUE(lent.gaps_are_zero()) << "launch " << launch;
      }
    }
  }
}

}  // namespace
}  // namespace tandem
