#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"

// The worked example of docs/extending.md: the block in examples/custom_block, added as the
// document says, and that the document shows the files as they are.

namespace tandem {
namespace {

std::string read(const std::string& file) {
  const std::ifstream stream(std::string(TANDEM_ROOT) + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(CustomBlock, MakesTheModelThatTheDocumentSays) {
  // By the usual reader: this program's table of blocks has the line that the document adds.
  const Graph graph =
      load_model(std::string(TANDEM_ROOT) + "/examples/custom_block/plain_net.toml", {});
  // (27 + 2) 16, (144 + 2) 16, (144 + 2) 32, (288 + 2) 32, and (32 + 1) 10
  EXPECT_EQ(graph.parameter_elements(), 464 + 2336 + 4672 + 9280 + 330);
  EXPECT_EQ(graph.multiply_adds(), 1024 * (27 + 144) * 16 + 256 * (144 + 288) * 32 + 320);
  AnyContext context = cpu(1);
  const Graph fused = fuse(graph);
  ParameterStore store(fused, context, true);
  for (const char* name : {"stage1.0.conv.weight", "stage1.1.norm.bias", "stage2.0.conv.weight"}) {
    EXPECT_NO_THROW(static_cast<void>(store.parameter_index(name))) << name;
  }
  store.initialize(1);
  StepPlan plan(fused, store, context, {.batch = 4, .training = true});
  const Batch batch(graph, 4, 1);
  double loss = plan.forward(batch.images(), batch.targets(), 4).loss;
  const double before = loss;
  for (int step = 0; step < 20; ++step) {
    plan.backward(false, {});
    const auto values = store.all_values().span<float>();
    const auto gradients = store.all_gradients().span<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.5F * gradients[i];
    loss = plan.forward(batch.images(), batch.targets(), 4).loss;
  }
  EXPECT_LT(loss, 0.7 * before);
}

TEST(CustomBlock, StandsInTheDocumentAsItIs) {
  const std::string document = read("docs/extending.md");
  for (const char* file : {"plain_blocks.h", "plain_blocks.cpp"}) {
    std::string text = read(std::string("examples/custom_block/") + file);
    const std::string own = "#include \"plain_blocks.h\"";
    if (const std::size_t at = text.find(own); at != std::string::npos) {
      text.replace(at, own.size(), "#include \"graph/plain_blocks.h\"");
    }
    EXPECT_NE(document.find(text), std::string::npos) << file;
  }
  // What the build files put into the table of blocks for this program.
  EXPECT_NE(document.find("      BlockKind{\"plain_stage\", &build_plain_stage},\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
