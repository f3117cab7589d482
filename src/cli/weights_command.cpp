#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "base/atomic_file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/usage_error.h"
#include "graph/model_file.h"
#include "train/checkpoints/model_weights.h"
#include "train/checkpoints/safetensors.h"

namespace tandem {
namespace {

int show(const std::string& path) {
  const SafetensorsFile file(path);
  for (const auto& [key, value] : file.metadata())
    std::cout << fmt::format("# {} = {}\n", key, value);
  std::int64_t elements = 0;
  for (const NamedTensor& tensor : file.tensors()) {
    std::cout << fmt::format("{:<56}{:>5}  {}\n", tensor.name, name_of(tensor.dtype),
                             tensor.shape.text());
    elements += tensor.shape.elements();
  }
  std::cout << fmt::format("{} tensors, {} elements\n", file.tensors().size(),
                           format_count(elements));
  return 0;
}

struct ExportArguments {
  std::string from;
  std::string to;
  bool trained = false;
};

/// Copies the weights out of a checkpoint: their moving average where it has one.
int export_weights(const ExportArguments& arguments) {
  const std::string& to = arguments.to;
  expect_other_file(to, arguments.from);
  expect_replaceable(to, safetensors_kind);
  const SafetensorsFile file(arguments.from);
  const std::vector<NamedTensor> tensors =
      weights_of(file, arguments.trained ? WhichWeights::trained : WhichWeights::averaged);
  SafetensorsMetadata metadata{{"format", "pt"}};
  if (const auto model = file.metadata().find("model"); model != file.metadata().end()) {
    metadata.insert(*model);
  }
  write_safetensors(to, tensors, metadata);
  std::cout << fmt::format("{}: {} tensors{}, torchvision's names and layouts\n", to,
                           tensors.size(),
                           has_average(file) && !arguments.trained ? " (moving average)" : "");
  return 0;
}

struct ImportArguments {
  std::string model;
  std::string from;
  std::string to;
  ModelOptions options;
};

/// Reads foreign weights into the model, which checks names, shapes and dtypes, and writes them as
/// f32.
int import_weights(const ImportArguments& arguments) {
  const std::filesystem::path model = find_model(arguments.model);
  for (const std::filesystem::path& input : {model, std::filesystem::path(arguments.from)}) {
    expect_other_file(arguments.to, input);
  }
  expect_replaceable(arguments.to, safetensors_kind);
  AnyContext context(CpuContext(1));
  const Graph graph = load_model(model, arguments.options);
  ParameterStore store(graph, context, false);
  const std::int64_t batches = load_weights(SafetensorsFile(arguments.from), store);
  const WeightsExport weights(store, batches);
  write_safetensors(arguments.to, weights.tensors(), {{"format", "pt"}, {"model", arguments.model}},
                    WriteChecksum::yes);
  std::cout << fmt::format("{}: {} tensors of {}; start from it with --set train.init={}\n",
                           arguments.to, weights.tensors().size(), arguments.model, arguments.to);
  return 0;
}

}  // namespace

void add_weights_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("weights", "Import, export and show weights");
  command->footer("Files are safetensors with torchvision's names and layouts.");
  command->require_subcommand(1);

  auto file = std::make_shared<std::string>();
  CLI::App* shown = command->add_subcommand("show", "List the tensors of a file");
  shown->add_option("FILE", *file, "A checkpoint or a weights file")
      ->required()
      ->check(not_empty());
  shown->callback(
      [&chosen, file] { chosen = on_root([file](const MpiSession&) { return show(*file); }); });

  auto from_run = std::make_shared<ExportArguments>();
  CLI::App* exported =
      command->add_subcommand("export", "Write a checkpoint's weights for torchvision");
  exported->add_option("CHECKPOINT", from_run->from, "A checkpoint")
      ->required()
      ->check(not_empty());
  exported->add_option("OUT", from_run->to, "The file to write")->required()->check(not_empty());
  exported->add_flag("--trained", from_run->trained,
                     "The trained weights, not their moving average (train.ema_decay)");
  exported->callback([&chosen, from_run] {
    chosen = on_root([from_run](const MpiSession&) { return export_weights(*from_run); });
  });

  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* imported = command->add_subcommand(
      "import", "Check a torchvision state dict against a model and convert it to f32");
  imported->add_option("MODEL", arguments->model, "A zoo model or a model file")
      ->required()
      ->check(not_empty());
  imported->add_option("IN", arguments->from, "A safetensors file with torchvision's names")
      ->required()
      ->check(not_empty());
  imported->add_option("OUT", arguments->to, "The file to write")->required()->check(not_empty());
  imported->add_option("--classes", arguments->options.classes, "Classes (default: the model's)")
      ->check(within(1, 1 << 20));
  imported
      ->add_option("--channels", arguments->options.channels,
                   "Input channels (default: the model's)")
      ->check(within(1, 1 << 20));
  imported->callback([&chosen, arguments] {
    chosen = on_root([arguments](const MpiSession&) { return import_weights(*arguments); });
  });
}

}  // namespace tandem
