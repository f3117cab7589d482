#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "device/cuda_graph.h"
#include "optim/adamw.h"
#include "optim/average_kernels.h"
#include "optim/gradient_norm.h"
#include "optim/lars.h"
#include "optim/optimizer_config.h"
#include "optim/sgd.h"
#include "optim/small_arena.h"
#include "optim/step_controller.h"
#include "optim/update_blocks.h"
#include "tensor/convert.h"

namespace tandem {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

using Rule = decltype(OptimizerConfig::rule);
using Slices = std::vector<ParameterGroupSlice>;

/// The rules, and slices that lie on 64-byte boundaries as a model's do, or anywhere.
const std::vector<std::pair<const char*, Rule>> rules{
    {"sgd", SgdOptions{}},
    {"momentum", SgdOptions{.momentum = 0.9F}},
    {"nesterov", SgdOptions{.momentum = 0.9F, .nesterov = true}},
    {"adamw", AdamWOptions{}},
    {"lars", LarsOptions{.trust_coefficient = 0.02F}}};
const std::vector<std::pair<const char*, Slices>> layouts{{"aligned", slices},
                                                          {"anywhere",
                                                           {{1, 9001, 5e-4F},
                                                            {9003, 4096, 0.01F},
                                                            {13104, 8192, 0.0F},
                                                            {21297, 3, 0.1F, false},
                                                            {21300, 1027, 0.02F},
                                                            {39999, 1, 0.1F}}}};

/// Floats in a context's memory.
class Floats {
 public:
  Floats(AnyContext& context, const std::vector<float>& values)
      : context_(&context), table_(context, std::span<const float>(values), "a test") {}

  void set(const std::vector<float>& values) {
    copy_to_device(*context_, values.data(), values.size() * sizeof(float), table_.rows().data());
  }
  float* data() const { return table_.rows().data(); }
  Tensor tensor() const { return {data(), {static_cast<std::int64_t>(table_.rows().size())}}; }

 private:
  AnyContext* context_;
  ContextTable<float> table_;
};

template <typename T>
std::vector<T> on_host(AnyContext& context, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  copy_to_host(context, tensor.raw(), tensor.bytes(), values.data());
  return values;
}

std::unique_ptr<Optimizer> make(const Rule& rule, AnyContext& context, const Slices& layout) {
  OptimizerConfig config;
  config.rule = rule;
  return make_optimizer(config, context, arena_elements, layout);
}

std::vector<bool> covered_by(const Slices& layout) {
  std::vector<bool> covered(arena_elements, false);
  for (const ParameterGroupSlice& slice : layout) {
    for (std::int64_t i = 0; i < slice.elements; ++i) {
      covered[static_cast<std::size_t>(slice.offset + i)] = true;
    }
  }
  return covered;
}

/// Parameters and state, one after the other.
using Outcome = std::vector<std::vector<float>>;

void expect_near(const Outcome& found, const Outcome& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t t = 0; t < found.size(); ++t) {
    for (std::size_t i = 0; i < found[t].size(); ++i) {
      ASSERT_NEAR(found[t][i], expected[t][i], 3e-6 * (1.0 + std::abs(expected[t][i])))
          << what << ", tensor " << t << ", element " << i;
    }
  }
}

Outcome outcome_of(AnyContext& context, Optimizer& optimizer, const Floats& parameters) {
  Outcome outcome{on_host<float>(context, parameters.tensor())};
  for (const OptimizerState& state : optimizer.state()) {
    outcome.push_back(on_host<float>(context, state.tensor));
  }
  return outcome;
}

Outcome three_steps_by_value(AnyContext& context, const Rule& rule, const Slices& layout) {
  const auto optimizer = make(rule, context, layout);
  const Floats parameters(context, random_values("parameters"));
  for (int step = 0; step < 3; ++step) {
    const Floats gradients(context, random_values("gradients " + std::to_string(step)));
    optimizer->step(
        parameters.tensor(), gradients.tensor(),
        {.learning_rate = 0.1F / static_cast<float>(step + 1), .gradient_scale = 0.25F});
    synchronize(context);
  }
  return outcome_of(context, *optimizer, parameters);
}

TEST(CudaUpdate, IsTheCpusAndLeavesTheGaps) {
  AnyContext cpu = CpuContext(1);
  AnyContext gpu = CudaContext(0);
  for (const auto& [rule_name, rule] : rules) {
    for (const auto& [layout_name, layout] : layouts) {
      const std::string what = std::string(rule_name) + ", " + layout_name;
      const Outcome expected = three_steps_by_value(cpu, rule, layout);
      const Outcome found = three_steps_by_value(gpu, rule, layout);
      expect_near(found, expected, what);
      EXPECT_EQ(three_steps_by_value(gpu, rule, layout), found) << what << ": the same bits again";
      const std::vector<float> start = random_values("parameters");
      const std::vector<bool> covered = covered_by(layout);
      for (std::size_t i = 0; i < start.size(); ++i) {
        if (covered[i]) continue;
        ASSERT_EQ(found[0][i], start[i]) << what << ", gap at " << i;
        for (std::size_t t = 1; t < found.size(); ++t) ASSERT_EQ(found[t][i], 0.0F) << what;
      }
    }
  }
}

TEST(CudaUpdate, WritesRoundedParametersToo) {
  AnyContext gpu = CudaContext(0);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto& [rule_name, rule] : rules) {
      for (const auto& [layout_name, layout] : layouts) {
        const std::string what = std::string(rule_name) + ", " + layout_name;
        const auto optimizer = make(rule, gpu, layout);
        const Floats parameters(gpu, random_values("parameters"));
        const Floats gradients(gpu, random_values("gradients"));
        ContextTable<std::uint16_t> written(gpu, arena_elements, "a test");
        ContextTable<std::uint16_t> rounded(gpu, arena_elements, "a test");
        const Tensor weights(written.rows().data(), {arena_elements}, dtype);
        const Tensor expected(rounded.rows().data(), {arena_elements}, dtype);
        optimizer->step(parameters.tensor(), gradients.tensor(),
                        {.learning_rate = 0.1F, .weights = weights});
        convert(gpu, parameters.tensor(), expected);
        const auto found_bits = on_host<std::uint16_t>(gpu, weights);
        const auto expected_bits = on_host<std::uint16_t>(gpu, expected);
        const std::vector<bool> covered = covered_by(layout);
        for (std::size_t i = 0; i < covered.size(); ++i) {
          ASSERT_EQ(found_bits[i], covered[i] ? expected_bits[i] : 0) << what << ", " << i;
        }
      }
    }
  }
}

/// A step as a plan runs it: decision, update, average.
struct ControlledStep {
  AnyContext& context;
  StepController controller;
  std::unique_ptr<Optimizer> optimizer;
  Floats parameters;
  Floats average;
  Floats gradients;
  Floats loss;

  ControlledStep(AnyContext& place, const Rule& rule, const Slices& layout, const StepRules& how)
      : context(place),
        controller(place, layout, how),
        optimizer(make(rule, place, layout)),
        parameters(place, random_values("parameters")),
        average(place, random_values("average")),
        gradients(place, random_values("gradients")),
        loss(place, {1.0F}) {}

  void enqueue() {
    controller.prepare(loss.tensor(), gradients.tensor());
    optimizer->enqueue(parameters.tensor(), gradients.tensor(), {.control = controller.control()});
    std::visit(
        [&](auto& device) {
          average_into(device, arena_elements, 0.0F, parameters.data(), average.data(),
                       controller.control());
        },
        context);
  }

  /// Sets what step number `step` reads.
  void set(int step, bool overflows) {
    std::vector<float> values = random_values("gradients " + std::to_string(step));
    if (overflows) values[35] = infinity;
    gradients.set(values);
    HostControl host{.gradient_scale = 0.25F,
                     .average_weight = 0.5F / static_cast<float>(step + 1)};
    optimizer->fill(host, 0.1F / static_cast<float>(step + 1));
    controller.write(host);
  }

  Outcome outcome() {
    Outcome result = outcome_of(context, *optimizer, parameters);
    result.push_back(on_host<float>(context, average.tensor()));
    return result;
  }
};

/// What other devices keep of the parameters, here in the same memory.
struct Peers {
  Peers(AnyContext& context, int count) {
    for (int p = 0; p < count; ++p) {
      parameters.emplace_back(context, random_values("others"));
      weights.emplace_back(context, std::size_t{arena_elements}, "a test");
    }
  }
  PeerCopies copies() const {
    PeerCopies copies{.count = static_cast<int>(parameters.size())};
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      copies.parameters[p] = parameters[p].data();
      copies.weights[p] = weights[p].rows().data();
    }
    return copies;
  }

  std::vector<Floats> parameters;
  std::vector<ContextTable<std::uint16_t>> weights;
};

/// Updates [begin, end) alone, on a device, and writes it to peers too. `layout` has an end at
/// both.
void expect_copies(AnyContext& gpu, const Rule& rule, const Slices& layout, std::int64_t begin,
                   std::int64_t end, DType dtype) {
  const auto optimizer = make(rule, gpu, layout);
  const Floats parameters(gpu, random_values("parameters"));
  const Floats gradients(gpu, random_values("gradients"));
  const ContextTable<std::uint16_t> written(gpu, arena_elements, "a test");
  const Tensor weights(written.rows().data(), {arena_elements}, dtype);
  const Peers peers(gpu, 3);
  const bool rounds = dtype != DType::f32;
  optimizer->enqueue(parameters.tensor(), gradients.tensor(),
                     {.learning_rate = 0.1F,
                      .weights = rounds ? weights : Tensor(),
                      .peers = peers.copies(),
                      .begin = begin,
                      .end = end});
  const std::vector<float> values = on_host<float>(gpu, parameters.tensor());
  const std::vector<float> before = random_values("parameters");
  const std::vector<float> others = random_values("others");
  const auto bits = rounds ? on_host<std::uint16_t>(gpu, weights) : std::vector<std::uint16_t>();
  std::vector<bool> unrounded(arena_elements, false);
  for (const ParameterGroupSlice& slice : layout) {
    for (std::int64_t i = 0; i < slice.elements; ++i) {
      unrounded[static_cast<std::size_t>(slice.offset + i)] = slice.read_unrounded || !rounds;
    }
  }
  const std::vector<bool> covered = covered_by(slices_within(layout, begin, end - begin));
  for (std::size_t p = 0; p < peers.parameters.size(); ++p) {
    const std::vector<float> of_peer = on_host<float>(gpu, peers.parameters[p].tensor());
    const Tensor peer_weights(peers.weights[p].rows().data(), {arena_elements}, dtype);
    if (rounds) {
      EXPECT_EQ(on_host<std::uint16_t>(gpu, peer_weights), bits);
    }
    for (std::size_t i = 0; i < of_peer.size(); ++i) {
      ASSERT_EQ(of_peer[i], covered[i] && unrounded[i] ? values[i] : others[i]) << i;
      if (!covered[i]) {
        ASSERT_EQ(values[i], before[i]) << i;
      }
    }
  }
}

TEST(CudaUpdate, WritesItsShareToOtherDevicesToo) {
  AnyContext gpu = CudaContext(0);
  constexpr std::int64_t cut = 20'000;
  for (const auto& [rule_name, rule] : rules) {
    if (std::holds_alternative<LarsOptions>(rule)) continue;
    for (const auto& [layout_name, whole] : layouts) {
      Slices layout = slices_within(whole, 0, cut);
      const Slices rest = slices_within(whole, cut, arena_elements - cut);
      layout.insert(layout.end(), rest.begin(), rest.end());
      for (std::size_t i = 0; i < layout.size(); i += 2) layout[i].read_unrounded = false;
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(std::string(rule_name) + ", " + layout_name);
        ASSERT_NO_FATAL_FAILURE(expect_copies(gpu, rule, layout, 0, cut, dtype));
        ASSERT_NO_FATAL_FAILURE(expect_copies(gpu, rule, layout, cut, arena_elements, dtype));
      }
    }
  }
}

void expect_same_state(const StepState& found, const StepState& expected) {
  EXPECT_EQ(found.skip, expected.skip);
  EXPECT_EQ(found.failed, expected.failed);
  EXPECT_EQ(found.loss_scale.scale, expected.loss_scale.scale);
  EXPECT_EQ(found.loss_scale.good_steps, expected.loss_scale.good_steps);
  EXPECT_EQ(found.loss_scale.overflows, expected.loss_scale.overflows);
  if (std::isfinite(expected.norm)) {
    EXPECT_NEAR(found.norm, expected.norm, 1e-12 * expected.norm);
    EXPECT_NEAR(found.factor, expected.factor, 1e-6F * expected.factor);
  } else {
    EXPECT_FALSE(std::isfinite(found.norm));
  }
  EXPECT_NEAR(found.step_size, expected.step_size, 1e-6F * expected.step_size);
  EXPECT_NEAR(found.inverse_root_correction, expected.inverse_root_correction,
              1e-6F * expected.inverse_root_correction);
}

TEST(CudaControl, ChangesWhatACapturedStepDoes) {
  AnyContext cpu = CpuContext(1);
  AnyContext gpu = CudaContext(0);
  for (const StepRules& how : {StepRules{}, StepRules{.clip_norm = 3.0},
                               StepRules{.clip_norm = 3e-5, .loss_scaling = true}}) {
    for (const auto& [rule_name, rule] : rules) {
      ControlledStep expected(cpu, rule, slices, how);
      ControlledStep found(gpu, rule, slices, how);
      auto& stream = std::get<CudaContext>(gpu);
      CudaGraph graph(stream, [&] { found.enqueue(); });
      EXPECT_EQ(found.outcome()[0], random_values("parameters")) << "captured, not run";
      for (int step = 0; step < 4; ++step) {
        const bool overflows = how.loss_scaling && step == 1;
        expected.set(step, overflows);
        found.set(step, overflows);
        expected.enqueue();
        graph.launch();
        expected.optimizer->count_step();
        found.optimizer->count_step();
        expect_same_state(found.controller.state(), expected.controller.state());
      }
      EXPECT_EQ(found.controller.state().loss_scale.overflows, how.loss_scaling ? 1 : 0);
      expect_near(found.outcome(), expected.outcome(), rule_name);
    }
  }
}

TEST(CudaControl, ASkippedStepChangesNothing) {
  AnyContext gpu = CudaContext(0);
  for (const auto& [rule_name, rule] : rules) {
    ControlledStep step(gpu, rule, slices, {.loss_scaling = true});
    step.set(0, false);
    step.enqueue();
    const Outcome before = step.outcome();

    step.set(1, true);
    step.enqueue();
    EXPECT_EQ(step.outcome(), before) << rule_name << ": an overflow";
    EXPECT_EQ(step.controller.state().loss_scale.scale, 32768.0F);

    step.set(2, false);
    step.loss.set({std::numeric_limits<float>::quiet_NaN()});
    step.enqueue();
    EXPECT_EQ(step.outcome(), before) << rule_name << ": a loss that is not finite";
    step.loss.set({1.0F});
    step.enqueue();
    EXPECT_EQ(step.outcome(), before) << rule_name << ": until the host clears it";
    StepState state = step.controller.state();
    EXPECT_EQ(state.failed, 1);
    state.failed = 0;
    step.controller.set_state(state);
    step.enqueue();
    EXPECT_NE(step.outcome(), before) << rule_name;
  }
}

TEST(CudaControl, FindsWhatIsNotFiniteAnywhere) {
  AnyContext gpu = CudaContext(0);
  ControlledStep step(gpu, SgdOptions{}, slices, {.loss_scaling = true});
  const std::vector<float> good = random_values("gradients");
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at :
         {0U, 4095U, 4096U, 17003U, 34999U, 35000U, 35008U, 35024U, 35040U}) {
      std::vector<float> values = good;
      values[at] = bad;
      step.gradients.set(values);
      step.controller.set_state({.loss_scale = {.scale = 1024.0F, .good_steps = 7}});
      step.enqueue();
      const StepState state = step.controller.state();
      EXPECT_EQ(state.skip, 1) << bad << " at " << at;
      EXPECT_EQ(state.loss_scale.scale, 512.0F);
      EXPECT_EQ(state.loss_scale.good_steps, 0);
    }
  }
  std::vector<float> values = good;
  values[35002] = infinity;  // between the slices
  step.gradients.set(values);
  step.controller.set_state(
      {.loss_scale = {.scale = 1024.0F, .good_steps = LossScale::growth_interval - 1}});
  step.enqueue();
  EXPECT_EQ(step.controller.state().skip, 0);
  EXPECT_EQ(step.controller.state().loss_scale.scale, 2048.0F);
}

TEST(CudaGradientNorm, IsTheCpus) {
  AnyContext cpu = CpuContext(1);
  AnyContext gpu = CudaContext(0);
  for (const auto& [name, layout] : layouts) {
    for (const float scale : {1.0F, 1e30F, 1e-30F}) {
      std::vector<float> values = random_values("gradients");
      for (float& value : values) value *= scale;
      const Floats there(gpu, values);
      const double expected = GradientNorm(cpu, layout).measure(view(values));
      GradientNorm norm(gpu, layout);
      const double found = norm.measure(there.tensor());
      EXPECT_NEAR(found, expected, 1e-12 * expected) << name;
      EXPECT_EQ(norm.measure(there.tensor()), found) << name << ": the same bits again";
    }
  }
}

TEST(CudaAverage, IsTheCpusAtAnyLengthAndPlace) {
  AnyContext cpu = CpuContext(1);
  AnyContext gpu = CudaContext(0);
  const std::vector<float> values = random_values("values");
  for (const std::int64_t offset : {0, 1, 4}) {
    for (const std::int64_t count : {0, 1, 4, 4095, 4096, 8197, 30003}) {
      const Floats there(gpu, values);
      const Floats average(gpu, random_values("average"));
      average_into(std::get<CudaContext>(gpu), count, 0.3F, there.data() + offset,
                   average.data() + offset);
      std::vector<float> expected = random_values("average");
      average_into(std::get<CpuContext>(cpu), count, 0.3F, values.data() + offset,
                   expected.data() + offset);
      expect_near({on_host<float>(gpu, average.tensor())}, {expected}, std::to_string(count));
      const auto found = on_host<float>(gpu, average.tensor());
      EXPECT_EQ(found.back(), expected.back()) << "behind the end";
    }
  }
}

}  // namespace
}  // namespace tandem
