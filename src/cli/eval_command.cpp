#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/rank_config.h"
#include "cli/usage_error.h"
#include "train/checkpoints/checkpoint_store.h"
#include "train/evaluation_run.h"
#include "train/record/json_line.h"
#include "train/record/progress_format.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  std::string target;
  std::string weights;
  std::vector<std::string> overrides;
  bool json = false;
};

/// The best checkpoint of a run's folder, else its newest.
fs::path weights_of_run(const fs::path& folder) {
  const CheckpointStore store(folder / "checkpoints");
  std::error_code code;
  if (fs::is_regular_file(store.best_path(), code)) return store.best_path();
  const auto newest = store.newest();
  if (!newest) {
    input_error("{} has no checkpoint; give --weights FILE", folder.string());
  }
  return newest->path;
}

/// The config of a run's folder, or `target` itself where it is one: weights alone say nothing of
/// the data.
fs::path config_file_of(const fs::path& target) {
  constexpr std::string_view wanted = "give a run's folder, or a config with --weights FILE";
  std::error_code code;
  if (fs::is_directory(target, code)) {
    fs::path inside = target / "config.toml";
    if (fs::exists(inside, code)) return inside;
    input_error("eval {}: a folder without config.toml, so no run's; {}", target.string(), wanted);
  }
  if (!fs::exists(target, code)) {
    const std::string what = code ? code.message() : "no such file or folder";
    input_error("eval {}: {}; {}", target.string(), what, wanted);
  }
  if (!is_of_kind(target, safetensors_kind)) return target;
  input_error(
      "eval {0}: a checkpoint or a weights file; give its run's folder, or a config with --weights "
      "{0}",
      target.string());
}

/// The weights of what is evaluated, once its config is found to be one.
fs::path weights_of(const EvalArguments& arguments, bool is_run) {
  if (!arguments.weights.empty()) return arguments.weights;
  if (is_run) return weights_of_run(arguments.target);
  input_error("eval {}: a config needs --weights FILE; a run's folder brings its own",
              arguments.target);
}

int evaluate(const EvalArguments& arguments, const MpiSession& session) {
  const fs::path target(arguments.target);
  fs::path config_file;
  await_rank_files([&] { config_file = config_file_of(target); });
  const RunConfig config = read_rank_config(config_file, arguments.overrides);
  fs::path weights;
  await_rank_files([&] { weights = weights_of(arguments, config_file != target); });
  const std::unique_ptr<Communicator> world =
      session.make_world({.timeout_seconds = config.timeout_seconds});
  const Evaluation result = evaluate_weights(config, weights, *world);
  if (world->rank() != 0) return 0;
  if (arguments.json) {
    JsonLine line;
    line.text("weights", weights.string())
        .real("top1", result.top1)
        .real("top5", result.top5)
        .real("loss", result.loss)
        .integer("samples", result.samples)
        .integer("skipped", result.skipped)
        .real("seconds", result.seconds);
    std::cout << line.str() << '\n';
  } else {
    std::cout << fmt::format("{}: top-1 {:.2f} %, top-5 {:.2f} %, loss {} on {} samples{}\n",
                             weights.string(), 100.0 * result.top1, 100.0 * result.top5,
                             loss_text(result.loss), result.samples,
                             result.skipped > 0 ? fmt::format(", {} skipped", result.skipped) : "");
  }
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("eval", "Evaluate weights on a test set");
  command->footer(
      "Every sample counts exactly once, whatever the number of ranks.\n"
      "Example: tandem eval runs/quickstart");
  auto arguments = std::make_shared<EvalArguments>();
  command
      ->add_option("TARGET", arguments->target,
                   "A run's folder (its best checkpoint), or a config with --weights")
      ->required()
      ->check(not_empty());
  command
      ->add_option("--weights", arguments->weights,
                   "A checkpoint or a weights file (.safetensors, torchvision's names)")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_option("--set", arguments->overrides, "Override a key of the config")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([&chosen, arguments] {
    chosen = [arguments](const MpiSession& session) { return evaluate(*arguments, session); };
  });
}

}  // namespace tandem
