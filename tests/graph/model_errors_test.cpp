#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "graph/model_file.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

/// The message for a model whose nodes start at line 2.
std::string refusal(const std::string& nodes) {
  return message_of<InputError>(
      [&] { parse_model("size = 8\n" + nodes, "bad.toml", {.classes = 2}); });
}

std::string node(const std::string& name, const std::string& rest) {
  return "[[node]]\nname = \"" + name + "\"\n" + rest + "\n";
}

const std::string tail =
    node("pool", "op = \"global_average_pool\"") + node("fc", "op = \"classifier\"");

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwanted: " << part;
  }
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(ModelErrors, ACycleNamesItsMembers) {
  const std::string message =
      refusal(node("a", "op = \"add\"\nfrom = [\"input\", \"c\"]") + node("b", "op = \"relu\"") +
              node("c", "op = \"relu\"") + tail);
  expect_parts(message, {"bad.toml:", "from", "the nodes form a cycle: a <- c <- b <- a"});
  expect_parts(refusal(node("a", "op = \"relu\"\nfrom = \"a\"") + tail),
               {"bad.toml:5: ", "the nodes form a cycle: a <- a"});
}

TEST(ModelErrors, AnUnknownOpNamesTheNearest) {
  expect_parts(refusal(node("a", "op = \"conv2\"\nout = 3\nkernel = 1") + tail),
               {"bad.toml:4: node[0].op: ", "'conv2' (did you mean 'conv2d'?)", "basic_stage",
                "classifier"});
}

// A few lines may ask for more than any machine has, or for more than 64 bits count.
TEST(ModelErrors, SizesBeyondReasonAreRefused) {
  expect_parts(
      refusal(node("a", "op = \"conv2d\"\nout = 65536\nkernel = 65536\npadding = 65536") + tail),
      {"bad.toml:4: ", "layer 'a' (conv2d) would have an output of 1x65545x65545x65536"});
  expect_parts(
      refusal(node("a", "op = \"conv2d\"\nout = 4096\nkernel = 4096\npadding = 2048") + tail),
      {"layer 'a' (conv2d) would have a parameter of 4096x4096x4096x3, more than 1.07374e+09 "
       "elements"});
  std::string stages;
  for (int i = 0; i < 3; ++i) {
    stages += node(std::to_string(i), "op = \"basic_stage\"\ncount = 1000\nout = 1");
  }
  expect_parts(refusal(stages + tail), {"is one too many: a model has at most 10000 layers"});
}

TEST(ModelErrors, AnUnknownKeyNamesTheNearest) {
  expect_parts(refusal(node("a", "op = \"conv2d\"\nout = 3\nkernal = 1") + tail),
               {"bad.toml:2: ", "kernel: missing", "is it 'kernal' of bad.toml:6 that is to be"});
  expect_parts(refusal(node("a", "op = \"conv2d\"\nout = 3\nkernel = 1\nstrid = 2") + tail),
               {"bad.toml:7: ", "strid", "did you mean 'stride'?"});
  expect_parts(refusal("clases = 3\n" + node("a", "op = \"relu\"") + tail),
               {"bad.toml:2: ", "clases", "did you mean 'classes'?"});
}

TEST(ModelErrors, AnUnknownSourceNamesTheNearest) {
  expect_parts(
      refusal(node("stem", "op = \"relu\"") + node("b", "op = \"relu\"\nfrom = \"stm\"") + tail),
      {"bad.toml:8: node[1].from: ", "no node is named 'stm' (did you mean 'stem'?)"});
}

TEST(ModelErrors, NamesMustBeThereAndDiffer) {
  expect_parts(refusal(node("a", "op = \"relu\"") + node("a", "op = \"relu\"") + tail),
               {"bad.toml:6: node[1].name: ", "a second node is named 'a'"});
  expect_parts(refusal(node("input", "op = \"relu\"") + tail),
               {"bad.toml:3: node[0].name: ", "'input'"});
  expect_parts(refusal("[[node]]\nop = \"relu\"\n" + tail), {"bad.toml:2: ", "name"});
}

// By which a checkpoint knows what is no weight of the model.
TEST(ModelErrors, NamesMustNotBeginAsInCheckpointsWhatIsNoWeight) {
  for (const char* name : {"ema", "ema.1", "optimizer", "optimizer.layer"}) {
    expect_parts(refusal(node(name, "op = \"relu\"") + tail),
                 {"layer '" + std::string(name) + "'", "cannot have this name: checkpoints keep "});
  }
  EXPECT_NO_THROW(parse_model("size = 8\n" + node("emap", "op = \"relu\"") + tail, "good.toml",
                              {.classes = 2}));
}

// In whatever order: so many that each reads the next would take the stack.
TEST(ModelErrors, TooManyNodesAreRefusedBeforeTheyArePutInOrder) {
  std::string nodes;
  for (int i = 0; i < 60'000; ++i) {
    nodes +=
        node("n" + std::to_string(i), "op = \"relu\"\nfrom = \"n" + std::to_string(i + 1) + "\"");
  }
  expect_parts(refusal(nodes + tail),
               {"'n10000' is one too many: a model has at most 10000 layers"});
}

/// A stage's blocks have names of their own, which a node may not take.
TEST(ModelErrors, NamesOfBlocksMustDifferFromNodes) {
  expect_parts(refusal(node("layer.0.conv1", "op = \"conv2d\"\nout = 4\nkernel = 1") +
                       node("layer", "op = \"basic_stage\"\ncount = 1\nout = 4") + tail),
               {"bad.toml:9: ", "layer 'layer.0.conv1' (conv2d) is there already"});
}

TEST(ModelErrors, ImpossibleSizesNameLayerAndSizes) {
  expect_parts(refusal(node("a", "op = \"conv2d\"\nout = 3\nkernel = 9") + tail),
               {"bad.toml:4: ", "layer 'a' (conv2d)", "a 9x9 window", "8x8 pixels"});
  expect_parts(refusal(node("a", "op = \"conv2d\"\nout = 3\nkernel = 1") +
                       node("b", "op = \"add\"\nfrom = [\"a\", \"input\"]") +
                       node("c", "op = \"conv2d\"\nout = 4\nkernel = 1") +
                       node("d", "op = \"add\"\nfrom = [\"b\", \"c\"]") + tail),
               {"bad.toml:", "layer 'd' (add)", "cannot add 1x8x8x3 and 1x8x8x4"});
  expect_parts(refusal(node("fc", "op = \"classifier\"")),
               {"bad.toml:4: ", "layer 'fc' (linear)", "1x8x8x3", "put a pooling before it"});
  expect_parts(
      refusal(node("flat", "op = \"global_average_pool\"") +
              node("stage", "op = \"basic_stage\"\ncount = 1\nout = 4\nstride = 2") + tail),
      {"bad.toml:7: ", "layer 'stage.0.conv1' (conv2d)", "1x3"});
}

TEST(ModelErrors, OtherOutputsThanClassesAreRefused) {
  const std::string seven =
      node("pool", "op = \"global_average_pool\"") + node("fc", "op = \"linear\"\nout = 7");
  expect_parts(refusal(seven),
               {"bad.toml:", "node[1].op", "ends in 7 outputs for 2 classes", "\"classifier\""});
  // With no word of classes it has those that it has.
  EXPECT_EQ(parse_model("name='m'\n" + seven, "m.toml", {.size = 8}).output(), Shape({1, 7}));
}

TEST(ModelErrors, AnInputTooSmallForTheZooNamesLayerAndSizes) {
  const std::string message = message_of<InputError>([] {
    parse_model("name='m'\n" + node("a", "op = \"max_pool\"\nkernel = 2") +
                    node("b", "op = \"max_pool\"\nkernel = 2") + tail,
                "small.toml", {.classes = 2, .size = 3});
  });
  expect_parts(message, {"small.toml:8: ", "layer 'b' (max_pool)", "1x1 pixels"});
}

TEST(ModelErrors, DanglingNodesAndWrongEnds) {
  expect_parts(
      refusal(node("a", "op = \"relu\"") + node("b", "op = \"relu\"\nfrom = \"input\"") + tail),
      {"bad.toml:", "'a' feeds nothing"});
  expect_parts(refusal(node("a", "op = \"relu\"")),
               {"bad.toml:4: node[0].op: ", "the model ends in 1x8x8x3, not in N x classes"});
  expect_parts(refusal(""), {"bad.toml", "at least one [[node]]"});
}

TEST(ModelErrors, WrongTypesAndCounts) {
  expect_parts(refusal(node("a", "op = \"conv2d\"\nout = \"3\"\nkernel = 1") + tail),
               {"bad.toml:5: node[0].out: "});
  expect_parts(refusal(node("a", "op = 3") + tail), {"bad.toml:4: node[0].op: "});
  expect_parts(refusal(node("a", "op = \"relu\"\nfrom = [\"input\", \"input\"]") + tail),
               {"bad.toml:5: node[0].from: ", "relu takes 1 input, not 2"});
  expect_parts(refusal(node("a", "op = \"add\"") + tail),
               {"bad.toml:", "add takes 2 inputs, not 1"});
  expect_parts(
      refusal(node("a", "op = \"relu\"") +
              node("s", "op = \"basic_stage\"\ncount = 1\nout = 3\nfrom = [\"a\", \"a\"]") + tail),
      {"basic_stage takes 1 input, not 2"});
  expect_parts(refusal("node = 3\n"), {"bad.toml:2: node"});
}

TEST(ModelFile, NodesMayStandInAnyOrder) {
  const Graph graph =
      parse_model("size = 8\n" + node("c", "op = \"relu\"\nfrom = \"b\"") +
                      node("a", "op = \"conv2d\"\nout = 5\nkernel = 1\nfrom = \"input\"") +
                      node("pool", "op = \"global_average_pool\"\nfrom = \"c\"") +
                      node("b", "op = \"batch_norm\"\nfrom = \"a\"") +
                      node("fc", "op = \"classifier\"\nfrom = \"pool\""),
                  "order.toml", {.classes = 2});
  std::vector<std::string> names;
  for (const Node& made : graph.nodes()) names.push_back(made.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c", "pool", "fc"}));
}

TEST(ModelFile, OptionsOverrideTheFile) {
  const std::string text = "channels = 2\nsize = 8\nclasses = 5\n" + tail;
  EXPECT_EQ(parse_model(text, "m.toml", {}).input(), (Shape{1, 8, 8, 2}));
  EXPECT_EQ(parse_model(text, "m.toml", {}).output(), (Shape{1, 5}));
  const Graph other = parse_model(text, "m.toml", {.classes = 7, .channels = 4, .size = 6});
  EXPECT_EQ(other.input(), (Shape{1, 6, 6, 4}));
  EXPECT_EQ(other.output(), (Shape{1, 7}));
}

TEST(ModelFile, IsNamedAfterItsFileAndMissingFilesAreErrors) {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.toml") << "size = 8\n" + tail;
  EXPECT_EQ(load_model(folder / "mine.toml", {}).name(), "mine");
  expect_parts(message_of<InputError>([&] { load_model(folder / "none.toml", {}); }),
               {"none.toml"});
}

}  // namespace
}  // namespace tandem
