#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tandem {

/// What a run sets about a model; 0, or an empty rate, keeps the model file's own value.
struct ModelOptions {
  std::int64_t classes = 0;
  std::int64_t channels = 0;
  std::int64_t size = 0;                     ///< rows and columns of the input
  std::optional<double> dropout{};           ///< before the classifier, 0 to 0.99
  std::optional<double> stochastic_depth{};  ///< of the last block, 0 to 0.99
  /// Who asks for these rates, for messages: "run.toml:3: model.stochastic_depth".
  std::string dropout_place{"model.dropout"};
  std::string stochastic_depth_place{"model.stochastic_depth"};
};

/// Builds a model from a TOML file:
///
///     name = "tiny"          # optional; the file's name otherwise
///     channels = 3           # defaults that a run may change
///     size = 32
///     classes = 10
///     dropout = 0.2          # default 0: none; before the classifier
///     stochastic_depth = 0.2 # default 0: none; the last block's rate, where blocks have it
///     [[node]]
///     name = "conv1"         # prefix of its parameters' names
///     op = "conv2d"          # a layer (layers/registry.h), a block (graph/blocks.h), or
///                            # "classifier": dropout and a linear layer to the number of classes
///     from = "input"         # default: the node before; a list where it takes several
///     ...                    # the op's own keys
///
/// Nodes may stand in any order; the last one in the file is the output. Throws InputError with
/// file and line for an unknown op or key, an unknown or repeated name, a cycle (its members
/// named), sizes that do not fit, and a rate above 0 that none of the nodes takes.
Graph load_model(const std::filesystem::path& file, const ModelOptions& options);
/// The same from text; `origin` stands for the file.
Graph parse_model(std::string_view text, std::string_view origin, const ModelOptions& options);

/// Where the model zoo lies: $TANDEM_MODELS, else the folder beside the program's installation,
/// else the source tree it was built from. Throws InputError where there is none.
std::filesystem::path model_zoo();
/// A zoo model's name ("resnet18") or a path to the file it stands for. A path has a '/' or ends in
/// ".toml". Throws InputError that names the nearest model of the zoo.
std::filesystem::path find_model(std::string_view name_or_path);
/// Names in the zoo, sorted.
std::vector<std::string> zoo_models();

}  // namespace tandem
