#include "graph/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"

namespace tandem {
namespace {

struct Moments {
  double mean = 0.0;
  double deviation = 0.0;
  double largest = 0.0;
};

Moments moments_of(const Tensor& tensor) {
  Moments moments;
  const auto values = tensor.span<float>();
  for (const float value : values) {
    moments.mean += static_cast<double>(value) / static_cast<double>(values.size());
    moments.largest = std::max(moments.largest, std::fabs(static_cast<double>(value)));
  }
  for (const float value : values) {
    moments.deviation += std::pow(static_cast<double>(value) - moments.mean, 2.0) /
                         static_cast<double>(values.size());
  }
  moments.deviation = std::sqrt(moments.deviation);
  return moments;
}

TEST(ParameterStore, StartsFromSeedAndNameAlone) {
  const Graph plain = zoo_model("resnet8");
  const Graph other = load_model(find_model("resnet20"), {.channels = 1});
  AnyContext context = cpu(1);
  ParameterStore a(plain, context, false);
  ParameterStore b(fuse(plain), context, true);
  ParameterStore c(other, context, false);
  for (ParameterStore* store : {&a, &b, &c}) store->initialize(42);
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    const std::string& name = a.parameters()[i].name;
    EXPECT_EQ(copy_of(a.value(i)), copy_of(b.value(b.parameter_index(name)))) << name;
  }
  EXPECT_EQ(copy_of(a.value(a.parameter_index("conv1.weight"))),
            copy_of(c.value(c.parameter_index("conv1.weight"))));
  const auto first = copy_of(a.value(a.parameter_index("layer1.0.conv1.weight")));
  EXPECT_NE(first, copy_of(a.value(a.parameter_index("layer1.0.conv2.weight"))));
  a.initialize(43);
  EXPECT_NE(first, copy_of(a.value(a.parameter_index("layer1.0.conv1.weight"))));
  a.initialize(42);
  EXPECT_EQ(first, copy_of(a.value(a.parameter_index("layer1.0.conv1.weight"))));
}

// However threads share the work: the n-th element is the n-th value of the parameter's stream.
TEST(ParameterStore, DrawsEachElementFromItsIndex) {
  const Graph graph = parse_model(
      "channels = 64\nsize = 2\n"
      "[[node]]\nname = 'conv'\nop = 'conv2d'\nout = 301\nkernel = 2\nbias = true\n"
      "[[node]]\nname = 'pool'\nop = 'global_average_pool'\n"
      "[[node]]\nname = 'fc'\nop = 'linear'\nout = 307\n",
      "model", {});
  for (const int threads : {1, 2}) {
    AnyContext context = cpu(threads);
    std::get<CpuContext>(context).activate();
    ParameterStore store(graph, context, false);
    store.initialize(5);
    for (std::size_t i = 0; i < store.parameters().size(); ++i) {
      const Parameter& parameter = store.parameters()[i];
      RandomStream random(5, parameter.name);
      const auto scale = static_cast<float>(parameter.init.value);
      for (const float value : store.value(i).span<float>()) {
        const bool normal = parameter.init.kind == Initializer::Kind::normal;
        const float drawn = normal ? scale * random.normal() : random.uniform(-scale, scale);
        ASSERT_NEAR(value, drawn, 1e-6F * scale)  // compilers may round a fused product otherwise
            << parameter.name;
      }
    }
  }
}

TEST(ParameterStore, StartsWithTorchvisionsDistributions) {
  const Graph graph = zoo_model("resnet18");
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, false);
  store.initialize(1);
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    const Moments moments = moments_of(store.value(i));
    const auto count = static_cast<double>(parameter.shape.elements());
    double deviation = 0.0;
    if (parameter.shape.rank() == 4) {
      EXPECT_EQ(parameter.role, ParameterRole::weight);
      deviation = std::sqrt(
          2.0 / static_cast<double>(parameter.shape[0] * parameter.shape[1] * parameter.shape[2]));
    } else if (parameter.name.starts_with("fc.")) {
      EXPECT_EQ(parameter.role,
                parameter.name == "fc.bias" ? ParameterRole::bias : ParameterRole::weight);
      const double bound = 1.0 / std::sqrt(512.0);
      deviation = bound / std::sqrt(3.0);
      EXPECT_LE(moments.largest, bound);
      EXPECT_GE(moments.largest, 0.99 * bound);
    } else {
      EXPECT_EQ(parameter.role, ParameterRole::norm);
      EXPECT_EQ(moments.deviation, 0.0);
      EXPECT_EQ(moments.mean, parameter.name.ends_with("weight") ? 1.0 : 0.0) << parameter.name;
      continue;
    }
    EXPECT_NEAR(moments.mean, 0.0, 5.0 * deviation / std::sqrt(count)) << parameter.name;
    EXPECT_NEAR(moments.deviation, deviation, 4.0 * deviation / std::sqrt(count)) << parameter.name;
  }
  for (const StateBuffer& buffer : store.buffers()) {
    const Moments moments = moments_of(store.buffer(buffer.name));
    EXPECT_EQ(moments.mean, buffer.name.ends_with("running_var") ? 1.0 : 0.0) << buffer.name;
    EXPECT_EQ(moments.deviation, 0.0);
  }
}

TEST(ParameterStore, GapsAreZeroAndStayZero) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  StepPlan plan(graph, store, context, {.batch = 3, .training = true, .accumulation = true});
  const Batch batch(graph, 3, 1);
  for (const bool accumulate : {false, true}) {
    plan.forward(batch.images(), batch.targets(), 3);
    plan.backward(accumulate, {});
  }
  auto values = copy_of(store.all_values());
  auto gradients = copy_of(store.all_gradients());
  auto gaps = static_cast<std::int64_t>(values.size());
  for (const Parameter& parameter : store.parameters()) {
    const auto count = parameter.shape.elements();
    std::fill_n(values.begin() + parameter.offset, count, 0.0F);
    std::fill_n(gradients.begin() + parameter.offset, count, 0.0F);
    gaps -= count;
  }
  EXPECT_GT(gaps, 0);
  EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0.0F; }));
  EXPECT_TRUE(std::ranges::all_of(gradients, [](float value) { return value == 0.0F; }));
}

TEST(ParameterStore, UnknownNamesAndMissingGradientsAreErrors) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  const ParameterStore store(graph, context, false);
  EXPECT_THROW(store.parameter_index("fc.weigth"), Error);
  EXPECT_THROW(store.buffer("stem_norm.running"), Error);
  EXPECT_THROW(store.gradient(0), Error);
  EXPECT_THROW(store.all_gradients(), Error);
}

}  // namespace
}  // namespace tandem
