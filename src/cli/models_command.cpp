#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/usage_error.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

int list_models(const ModelOptions& options, const std::string& only) {
  const std::vector<std::string> names =
      only.empty() ? zoo_models() : std::vector<std::string>{only};
  std::size_t width = 22;
  for (const std::string& name : names) width = std::max(width, name.size());
  // Printed whole, since a model may turn out not to be there.
  std::string table = fmt::format("{:<{}}{:>16}{:>14}{:>10}{:>10}  {}\n", "model", width, "input",
                                  "parameters", "GMACs", "GFLOPs", "classes");
  for (const std::string& name : names) {
    const Graph graph = load_model(find_model(name), options);
    const double macs = 1e-9 * static_cast<double>(graph.multiply_adds());
    const Shape& input = graph.input();
    table +=
        fmt::format("{:<{}}{:>16}{:>14}{:>10.3f}{:>10.3f}  {}\n", name, width,
                    fmt::format("{}x{}x{}", input[1], input[2], input[3]),
                    format_count(graph.parameter_elements()), macs, 2.0 * macs, graph.output()[1]);
  }
  std::cout << table;
  return 0;
}

}  // namespace

void add_models_command(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("models", "List the model zoo with parameter counts and work");
  command->footer(
      "Work is one image's forward pass: multiply-adds of convolutions and linear layers (GMACs, "
      "1e9), and two operations each (GFLOPs).");
  auto options = std::make_shared<ModelOptions>();
  auto only = std::make_shared<std::string>();
  command->add_option("MODEL", *only, "A zoo model or a model file (default: the whole zoo)")
      ->check(not_empty());
  command->add_option("--size", options->size, "Rows and columns of the input, pixels")
      ->check(within(1, 1 << 20));
  command->add_option("--classes", options->classes, "Number of classes")
      ->check(within(1, 1 << 20));
  command->add_option("--channels", options->channels, "Input channels")->check(within(1, 1 << 20));
  command->callback([&chosen, options, only] {
    chosen = on_root([options, only](const MpiSession&) { return list_models(*options, *only); });
  });
}

}  // namespace tandem
