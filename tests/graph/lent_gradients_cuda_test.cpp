#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>

#include "device/cuda_graph.h"
#include "device/memory.h"
#include "graph/device_batch.h"
#include "graph/equal_groups.h"
#include "graph/fusion.h"
#include "graph/late_queue.h"
#include "graph/model_file.h"
#include "graph/untimed_kernels.h"
#include "optim/sgd.h"
#include "support/repeats.h"
#include "tensor/host_tensor.h"

// Captured steps whose activations lie in the gradients' memory, or whose gradients pass through
// theirs, and between which their own memory is written over, against steps that leave the
// gradients' memory alone and have their own for themselves.

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 16;

std::unique_ptr<Optimizer> make_sgd(AnyContext& context, const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    slices.push_back({.offset = parameter.offset, .elements = parameter.shape.elements()});
  }
  return std::make_unique<Sgd>(context, store.trained_values().elements(), slices,
                               SgdOptions{.momentum = 0.9F});
}

constexpr std::size_t parameters_of_a_group = 3;

/// What one step leaves behind.
struct Results {
  std::vector<float> sums;
  std::vector<float> gradients;  // empty where they pass
  std::vector<float> values;
  std::vector<float> statistics;
  bool operator==(const Results&) const = default;
};

/// Steps on one batch.
class Steps {
 public:
  Steps(AnyContext& context, const Graph& graph, GradientMemory memory, bool late)
      : context_(context),
        store_(graph, context, memory != GradientMemory::passing, {}, Precision::bf16),
        plan_(graph, store_, context,
              {.batch = batch_size,
               .training = true,
               .precision = Precision::bf16,
               .gradient_memory = memory,
               .gradient_groups = memory == GradientMemory::passing
                                      ? equal_groups(store_, parameters_of_a_group)
                                      : std::vector<ParameterRange>(),
               .side_work = SideWork::always,
               .side_queue = late ? std::make_shared<LateQueue>() : nullptr}),
        optimizer_(make_sgd(context, store_)),
        batch_(context, graph, Precision::bf16, batch_size, 1),
        sums_(context, 4 * sizeof(float), "a test") {
    store_.initialize(1);
    if (passes()) return;
    // NaN, but for the gaps; backward must write every one.
    HostTensor gradients(context, store_.all_gradients());
    for (const Parameter& parameter : store_.trained()) {
      std::fill_n(gradients.tensor().data<float>() + parameter.offset, parameter.shape.elements(),
                  NAN);
    }
    gradients.write_back();
  }

  void enqueue() {
    plan_.enqueue_forward(batch_.images(), batch_.targets(), plan_.batch(), {.seed = 1}, nullptr,
                          Tensor(sums_.data(), {4}));
    if (passes()) {
      backward_with_update();
      optimizer_->count_step();
    } else {
      plan_.backward(false, {});
      optimizer_->step(store_.trained_values(), store_.all_gradients(),
                       {.learning_rate = 0.01F, .weights = store_.trained_weights()});
    }
  }
  Results results() const {
    return {.sums = values_of(Tensor(sums_.data(), {4})),
            .gradients = passes() ? std::vector<float>() : values_of(store_.all_gradients()),
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
  bool passes() const { return plan_.gradient_memory() == GradientMemory::passing; }
  void backward_with_update() {
    const std::vector<ParameterRange> groups = equal_groups(store_, parameters_of_a_group);
    std::vector<bool> told(store_.trained().size(), false);
    std::size_t next = 0;
    plan_.backward(false, [&](std::span<const std::size_t> parameters) {
      for (const std::size_t parameter : parameters) told[parameter] = true;
      for (; next < groups.size() &&
             std::all_of(told.begin() + begin_of(groups[next]), told.begin() + end_of(groups[next]),
                         [](bool each) { return each; });
           ++next) {
        update(groups[next], plan_.passing_gradients(next));
      }
    });
    EXPECT_EQ(next, groups.size());
  }
  static std::ptrdiff_t begin_of(const ParameterRange& group) {
    return static_cast<std::ptrdiff_t>(group.first);
  }
  static std::ptrdiff_t end_of(const ParameterRange& group) {
    return static_cast<std::ptrdiff_t>(group.last);
  }
  void update(const ParameterRange& group, const Tensor& gradients) {
    const std::int64_t begin = store_.trained()[group.first].offset;
    optimizer_->enqueue(store_.trained_values(), gradients,
                        {.learning_rate = 0.01F,
                         .weights = store_.trained_weights(),
                         .begin = begin,
                         .end = begin + gradients.elements()});
  }
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

/// A model, and whether its side work is done late.
class LentGradientsCudaTest : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  UntimedKernels untimed_;
  AnyContext context_{std::in_place_type<CudaContext>, 0};
};

TEST_P(LentGradientsCudaTest, LeaveTheBits) {
  const auto& [model, late] = GetParam();
  const Graph graph = fuse(load_model(find_model(model), {.classes = 10, .size = 32}));
  Steps own(context_, graph, GradientMemory::stored, late);
  Steps lent(context_, graph, GradientMemory::lent, late);
  Steps passing(context_, graph, GradientMemory::passing, late);
  EXPECT_GT(lent.plan().side_layers(), 0U);
  EXPECT_LE(lent.plan().activation_bytes(), own.plan().activation_bytes());
  // Outside of a graph first, as in training.
  for (Steps* each : {&own, &lent, &passing}) each->enqueue();
  synchronize(context_);
  auto& device = std::get<CudaContext>(context_);
  CudaGraph own_graph(device, [&] { own.enqueue(); });
  CudaGraph lent_graph(device, [&] { lent.enqueue(); });
  CudaGraph passing_graph(device, [&] { passing.enqueue(); });
  for (int launch = 0; launch < repeats(8); ++launch) {
    own_graph.launch();
    lent.overwrite_memory();
    lent_graph.launch();
    passing.overwrite_memory();
    passing_graph.launch();
    Results wanted = own.results();
    ASSERT_TRUE(std::ranges::all_of(wanted.gradients,
                                    [](float gradient) { return std::isfinite(gradient); }));
    EXPECT_EQ(lent.results().sums, wanted.sums) << "launch " << launch;
    EXPECT_TRUE(lent.results() == wanted) << "launch " << launch;
    EXPECT_TRUE(lent.gaps_are_zero()) << "launch " << launch;
    wanted.gradients.clear();
    EXPECT_TRUE(passing.results() == wanted) << "passing, launch " << launch;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, LentGradientsCudaTest,
                         testing::Combine(testing::Values("resnet18", "shufflenet_v2_x1_0"),
                                          testing::Bool()),
                         [](const auto& each) {
                           return std::get<0>(each.param) +
                                  (std::get<1>(each.param) ? "_late" : "");
                         });

}  // namespace
}  // namespace tandem
