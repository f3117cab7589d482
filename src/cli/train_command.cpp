#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/default_folder.h"
#include "cli/rank_config.h"
#include "cli/usage_error.h"
#include "train/checkpoints/checkpoint_store.h"
#include "train/trainer.h"

namespace tandem {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  std::string resume;
};

int train(const TrainArguments& arguments, bool resume, const MpiSession& session) {
  // Whoever reads what it says may go (`| head`): a run of one process does not depend on it.
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) log_warning("cannot ignore SIGPIPE");
  const RunConfig config = read_rank_config(arguments.config, arguments.overrides);
  const std::filesystem::path folder = run_folder(arguments.config, arguments.out);
  const std::unique_ptr<Communicator> world =
      session.make_world({.timeout_seconds = config.timeout_seconds});
  Trainer trainer(config,
                  {.folder = folder,
                   .resume = resume,
                   .resume_from = arguments.resume,
                   .config = arguments.config},
                  *world);
  const TrainOutcome outcome = trainer.run();
  if (world->rank() == 0 && outcome == TrainOutcome::finished) {
    log_info("done: {} holds the checkpoints, metrics.jsonl, config.toml and train.log",
             folder.string());
  }
  world->barrier();
  return outcome == TrainOutcome::finished ? 0 : ExitCode::stopped;
}

}  // namespace

void add_train_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  command->footer(
      "A run's folder holds config.toml (with overrides and defaults), metrics.jsonl (one JSON "
      "object per log interval and per evaluation), checkpoints/ and train.log.\n"
      "All keys of a config with units and defaults: docs/config.md.\n"
      "SIGINT or SIGTERM to any rank: a checkpoint at the next step, exit code 75.\n"
      "mpirun that gets the signal itself (Ctrl-C) ends with 1 instead: it tells its ranks a "
      "second "
      "later, and kills them another second later. Where a step or a checkpoint takes longer, use "
      "tandem launch, which waits; or make both waits as long with mpirun --mca "
      "odls_base_sigkill_timeout SECONDS.\n"
      "Example: mpirun -n 2 --bind-to none tandem train examples/fashion_mnist/quickstart.toml "
      "--set "
      "train.epochs=10 --out runs/first");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("CONFIG", arguments->config, "The run's config, a TOML file")
      ->required()
      ->check(not_empty());
  command
      ->add_option("--set", arguments->overrides,
                   "Override a key: --set optimizer.lr=0.05; may be repeated; KEY=unset removes it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--out", arguments->out,
          "The run's folder (default: runs/NAME of CONFIG; of a run's config.toml that run's)")
      ->type_name("DIR")
      ->check(no_home_sign());
  CLI::Option* resume =
      command
          ->add_option("--resume", arguments->resume,
                       "Go on from a checkpoint or a run's folder (default: the newest sound "
                       "checkpoint of --out, or the best)")
          ->type_name("[PATH]")
          ->expected(0, 1);
  command->callback([&chosen, arguments, resume] {
    const bool resumed = resume->count() > 0;
    chosen = [arguments, resumed](const MpiSession& session) {
      return train(*arguments, resumed, session);
    };
  });
}

}  // namespace tandem
