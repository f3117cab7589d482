#include "graph/step_key.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"

// A choice that was measured of one step must not be taken for another one's.

namespace tandem {
namespace {

/// What a small model may have otherwise, its parameters and shapes alike.
struct Model {
  std::string activation = "relu";
  std::string conv = "padding = 1";
  std::string pool = "max_pool";
  std::string pool_window = "kernel = 3\npadding = 1";
  NamePrefixes frozen{};
};

std::string key_of(const Model& model, const StepPlanOptions& options = {.batch = 8}) {
  const auto node = [](const std::string& name, const std::string& op, const std::string& rest) {
    return "[[node]]\nname = \"" + name + "\"\nop = \"" + op + "\"\n" + rest + "\n";
  };
  const std::string text = "size = 8\n" +
                           node("conv", "conv2d", "out = 4\nkernel = 3\n" + model.conv) +
                           node("norm", "batch_norm", "") + node("act", model.activation, "") +
                           node("pool", model.pool, "stride = 1\n" + model.pool_window) +
                           node("flat", "global_average_pool", "") + node("fc", "classifier", "");
  AnyContext context = cpu(1);
  const Graph graph = fuse(parse_model(text, "model.toml", {.classes = 2}));
  const ParameterStore store(graph, context, true, model.frozen);
  return step_key(graph, store, options);
}

TEST(StepKey, IsTheSameForTheSameStep) {
  EXPECT_EQ(key_of({}), key_of({}));
  EXPECT_EQ(key_of({}).find("step of "), 0U);
  EXPECT_EQ(key_of({}).find_first_of("\t\n"), std::string::npos) << "a line of a table";
}

TEST(StepKey, DiffersWhereLayersDoThoughTheirShapesDoNot) {
  const std::string key = key_of({});
  EXPECT_NE(key_of({.activation = "silu"}), key);
  EXPECT_NE(key_of({.conv = "padding = 2\ndilation = 2"}), key);
  EXPECT_NE(key_of({.pool = "average_pool"}), key);
  EXPECT_NE(key_of({.pool_window = "kernel = 5\npadding = 2"}), key);
}

TEST(StepKey, DiffersByHowTheStepIsComputed) {
  const std::string key = key_of({});
  EXPECT_NE(key_of({.frozen = NamePrefixes({"fc"})}), key);
  EXPECT_NE(key_of({}, {.batch = 16}), key);
  EXPECT_NE(key_of({}, {.batch = 8, .precision = Precision::bf16}), key);
  EXPECT_NE(key_of({}, {.batch = 8, .accumulation = true}), key);
  EXPECT_NE(key_of({}, {.batch = 8, .batch_groups = 2}), key);
}

}  // namespace
}  // namespace tandem
