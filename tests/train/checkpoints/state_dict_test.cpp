#include <gtest/gtest.h>

#include <set>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "support/state_dicts.h"
#include "train/checkpoints/model_weights.h"

// What the zoo's models export has the names, dtypes and shapes of torchvision's state dicts.

namespace tandem {
namespace {

/// Of He et al. 2016, section 4.2: torchvision has none of them.
const std::set<std::string> cifar_models{"resnet8", "resnet20", "resnet32", "resnet56"};

TEST(StateDicts, AreThereForEveryModelOfTheZoo) {
  std::set<std::string> known = cifar_models;
  for (const auto& [model, dict] : read_state_dicts(TANDEM_STATE_DICTS)) known.insert(model);
  const std::vector<std::string> zoo = zoo_models();
  EXPECT_EQ(known, std::set<std::string>(zoo.begin(), zoo.end()));
}

TEST(StateDicts, AreWhatAnExportHolds) {
  AnyContext context(CpuContext(1));
  for (const auto& [model, dict] : read_state_dicts(TANDEM_STATE_DICTS)) {
    std::map<std::string, std::string> wanted;
    for (const StateDictEntry& entry : dict) wanted[entry.name] = entry.dtype + " " + entry.shape;
    const Graph graph = fuse(load_model(find_model(model), {}));
    const ParameterStore store(graph, context, false);
    const WeightsExport weights(store, 1);
    std::map<std::string, std::string> found;
    for (const NamedTensor& tensor : weights.tensors()) {
      found[tensor.name] = fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.text());
    }
    EXPECT_EQ(found.size(), weights.tensors().size()) << model << ": a name comes twice";
    EXPECT_EQ(found, wanted) << model;
  }
}

}  // namespace
}  // namespace tandem
