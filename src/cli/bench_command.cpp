#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "bench/bench_json.h"
#include "bench/bench_text.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/rank_config.h"
#include "cli/usage_error.h"

namespace tandem {
namespace {

struct BenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  BenchOptions options;
  bool layers = false;
  std::string json;
};

int bench(const BenchArguments& arguments, const MpiSession& session) {
  const RunConfig config = read_rank_config(arguments.config, arguments.overrides);
  const std::unique_ptr<Communicator> world =
      session.make_world({.timeout_seconds = config.timeout_seconds});
  const bool root = world->rank() == 0;
  if (root && !arguments.json.empty()) expect_json_can_be_written(arguments.json);
  if (root) {
    log_info("measuring a training step of {} on {} process{}; this takes some seconds",
             config.model, world->size(), world->size() == 1 ? "" : "es");
  }
  const BenchResult result = run_bench(config, arguments.options, *world);
  if (!root) return 0;
  std::cout << bench_text(result, arguments.layers) << std::flush;
  if (!arguments.json.empty()) {
    await_rank_files([&] {
      file_in_hand(arguments.json);
      std::ofstream json(arguments.json);
      json << bench_json(result) << std::flush;
      if (!json)
        system_error("--json {}: cannot be written: {}", arguments.json, std::strerror(errno));
    });
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure a run's training step and what its time goes to");
  command->footer(
      "Measures for some seconds: the step on one batch, with the loader, and the loader alone; "
      "the step by phase and by kind of layer beside what the device's measured copy and product "
      "rates "
      "allow; memory. Trains nothing and writes no run's folder.\n"
      "Example: mpirun -n 2 --bind-to none tandem bench examples/fashion_mnist/quickstart.toml "
      "--json bench.json");
  auto arguments = std::make_shared<BenchArguments>();
  command->add_option("CONFIG", arguments->config, "The run's config, a TOML file")
      ->required()
      ->check(not_empty());
  command
      ->add_option(
          "--set", arguments->overrides,
          "Override a key: --set train.global_batch=512; may be repeated; KEY=unset removes it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--seconds", arguments->options.seconds,
                   "To measure the step for, on one batch and with the loader each")
      ->type_name("SECONDS")
      ->check(within(0.01, 3600.0))
      ->capture_default_str();
  auto* const rates_only = command->add_flag("--rates-only", arguments->options.rates_only,
                                             "Leave out phases, layers and ceilings");
  command->add_flag("--layers", arguments->layers, "Show every layer")->excludes(rates_only);
  command->add_option("--json", arguments->json, "Write everything, as one JSON object")
      ->type_name("FILE")
      ->check(not_empty());
  command->callback([&chosen, arguments] {
    chosen = [arguments](const MpiSession& session) { return bench(*arguments, session); };
  });
}

}  // namespace tandem
