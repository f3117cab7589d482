#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/requested_gpus.h"
#include "cli/tune_folder.h"
#include "cli/tuned_placement.h"
#include "cli/usage_error.h"
#include "device/gpu_list.h"
#include "device/machine.h"
#include "device/open_context.h"
#include "launch/host_slots.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "parallel/placement/placement_store.h"
#include "train/environment.h"
#include "train/placement_key.h"
#include "train/record/terminal.h"
#include "train/stop_signal.h"
#include "tune/bench_runner.h"
#include "tune/tune_text.h"

namespace tandem {
namespace {

struct TuneArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string gpus;
  double seconds = 120.0;
  bool sweep = false;
  std::string json;
};

/// Tells what is measured, on a terminal also what is being measured.
class Teller {
 public:
  using Clock = std::chrono::steady_clock;

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void begin(const Candidate& candidate) const {
    if (!live_) return;
    fmt::print(stderr, "\r\x1b[K{:>4.0f} s  {} ...", elapsed(), text_of(candidate));
    std::fflush(stderr);
  }

  void end(const Candidate& candidate, const Measurement& found) const {
    if (live_) fmt::print(stderr, "\r\x1b[K");
    Row row{.candidate = candidate,
            .problem = found.problem,
            .does_not_fit = found.does_not_fit,
            .timed_out = found.timed_out};
    if (found.rates) row.runs.push_back(*found.rates);
    log_info("{:>4.0f} s  {}", elapsed(), row_text(row));
  }

 private:
  Clock::time_point start_ = Clock::now();
  bool live_ = is_live_terminal();
};

class Tuner {
 public:
  explicit Tuner(const TuneArguments& arguments)
      : arguments_(arguments),
        config_(read_config(arguments)),
        limits_{.global_batch = config_.global_batch,
                .accumulate = config_.accumulate,
                .workers = config_.data.workers,
                .cores = default_threads(read_machine(), 1),
                .seconds = arguments.seconds},
        call_(bench_call(arguments, config_)),
        runner_(call_, folder_.path(), [this] { return stop_.requested(); }) {}

  int run() {
    if (!arguments_.json.empty()) expect_json_can_be_written(arguments_.json);
    check_gpus();
    if (!arguments_.gpus.empty()) warn_of_idle_gpus(arguments_.gpus, config_.device);
    log_info("measuring placements of {}, for {:.0f} s at most; first one rank on each device{}",
             config_.model, arguments_.seconds,
             may_use_gpus() ? ", which chooses kernels where none are kept yet" : "");
    try {
      const TuneResult result =
          search_placement(limits_, measure(true), [&] { return teller_.elapsed(); });
      std::cout << tune_text(result) << std::flush;
      keep(result);
      // Before a sweep, which takes long and may break off; not into a pipe, which takes one.
      std::error_code code;
      if (!arguments_.sweep || std::filesystem::is_regular_file(arguments_.json, code)) {
        write_json(result, {});
      }
      if (arguments_.sweep) {
        const Sweep sweep = run_sweep(limits_, result, measure(false));
        std::cout << sweep_text(result, sweep);
        write_json(result, sweep);
      }
    } catch (const Interrupted&) {
      log_warning("stopped by {}", stop_.signal_name());
      // No checkpoint is written that --resume could go on from: not ExitCode::stopped.
      return ExitCode::of_signal(stop_.signal_number());
    }
    return 0;
  }

 private:
  static RunConfig read_config(const TuneArguments& arguments) {
    ConfigTable table = ConfigTable::from_file(arguments.config);
    for (const std::string& assignment : arguments.overrides) table.override_key(assignment);
    return read_run_config(table);
  }

  static BenchCall bench_call(const TuneArguments& arguments, const RunConfig& config) {
    // Each run measures for two and a half times as long and starts for some seconds: about thirty
    // of them fit.
    constexpr double runs = 150.0;
    return {.program = own_program(),
            .config = arguments.config,
            .overrides = arguments.overrides,
            .gpus = requested_gpus(arguments.gpus, config.device),
            .seconds = std::clamp(arguments.seconds / runs, 0.05, 2.0)};
  }

  /// As tandem launch sees them.
  GpuList visible_gpus() const {
    if (call_.gpus == "none") return {};
    return list_visible_gpus(mpi_start_seconds([](const char* name) { return std::getenv(name); }));
  }

  /// The first run would say it, and this command again. In a Slurm allocation the runs may start
  /// on other hosts.
  void check_gpus() const {
    if (std::getenv("SLURM_JOB_ID") != nullptr) {
      require_host_of_allocation();
      return;
    }
    static_cast<void>(choose_gpus(call_.gpus, visible_gpus()));
  }

  /// Elsewhere neither what the runs write can be read nor do this host's GPUs tell of theirs.
  static void require_host_of_allocation() {
    if (std::getenv("SLURMD_NODENAME") != nullptr || program_on_path("srun").empty()) return;
    input_error(
        "tandem tune: this host is none of the Slurm allocation's; start it on the first of them, "
        "as a batch script does");
  }

  /// `borrow`: as of BenchRunner. A sweep takes its time.
  Measure measure(bool borrow) const {
    return [this, borrow](const Candidate& candidate, double seconds) {
      teller_.begin(candidate);
      Measurement found = runner_.measure(candidate, borrow, seconds);
      teller_.end(candidate, found);
      return found;
    };
  }

  bool may_use_gpus() const {
    return built_with_cuda() && config_.device != DeviceKind::cpu && call_.gpus != "none";
  }

  void write_json(const TuneResult& result, const std::optional<Sweep>& sweep) const {
    if (arguments_.json.empty()) return;
    std::ofstream json(arguments_.json);
    json << tune_json(limits_, result, sweep) << std::flush;
    if (!json)
      system_error("--json {}: cannot be written: {}", arguments_.json, std::strerror(errno));
  }

  /// For `tandem launch --ranks-per-gpu auto`.
  void keep(const TuneResult& result) const {
    if (const std::string why = why_not_kept(result); !why.empty()) {
      std::cout << fmt::format(
          "the choice is not kept, since {}: give more --seconds{}\n", why,
          result.on_gpus ? ", or start again: kernels that were chosen are kept" : "");
      return;
    }
    try {
      save(result);
    } catch (const InputError& error) {
      warn_not_kept(error);
    } catch (const SystemError& error) {
      warn_not_kept(error);
    }
  }

  /// What was measured is told and written nevertheless.
  static void warn_not_kept(const Error& error) {
    log_warning("the choice is not kept: {}", error.what());
  }

  void save(const TuneResult& result) const {
    const Row& choice = result.rows.at(result.choice);
    const GpuList gpus = visible_gpus();
    const std::vector<GpuInfo> used = choose_gpus(call_.gpus, gpus);
    // Inside a Slurm allocation the runs were on all of its hosts.
    const int per_host = result.on_gpus ? std::max(1, static_cast<int>(used.size())) : 1;
    const int hosts = std::max(1, result.devices / per_host);
    const PlacementKey key = placement_key(config_, placement_host(used, gpus), hosts);
    const PlacementStore store = PlacementStore::of_user();
    store.save(key, {.placement = choice.candidate.placement,
                     .loader_workers = choice.candidate.workers,
                     .images_per_second = choice.training(),
                     .one_rank_images_per_second =
                         result.one_rank ? result.rows.at(*result.one_rank).training() : 0.0,
                     .hosts = hosts,
                     .date = utc_time()});
    std::cout << fmt::format("kept in {} for tandem launch --ranks-per-gpu auto\n",
                             store.file(key).string());
  }

  const TuneArguments& arguments_;
  RunConfig config_;
  SearchLimits limits_;
  StopSignal stop_{StopSignal::Hangup::stops};
  TuneFolder folder_;
  Teller teller_;
  BenchCall call_;
  BenchRunner runner_;
};

}  // namespace

void add_tune_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "tune", "Find the fastest placement of a run's ranks on its GPUs, or on this host's CPUs");
  command->footer(
      "Measures, at the run's global batch, one rank on each GPU, 2, 4 and 8 folded ranks and "
      "processes, SM shares and loader workers; each by tandem launch of tandem bench. Chooses "
      "another placement than one rank only where it gains more than the spread of the "
      "measurements, and keeps the choice for tandem launch --ranks-per-gpu auto.\n"
      "Example: tandem tune examples/fashion_mnist/resnet20.toml");
  auto arguments = std::make_shared<TuneArguments>();
  command->add_option("CONFIG", arguments->config, "The run's config, a TOML file")
      ->required()
      ->check(not_empty());
  command
      ->add_option(
          "--set", arguments->overrides,
          "Override a key: --set train.global_batch=512; may be repeated; KEY=unset removes it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--gpus", arguments->gpus, "As of tandem launch: all, none, N or a list")
      ->type_name("all|none|N|LIST")
      ->check(not_empty("list of GPUs"));
  command
      ->add_option("--seconds", arguments->seconds,
                   "To take for all of it at most, but for a few that it takes to start and end")
      ->type_name("SECONDS")
      ->check(within(1.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--sweep", arguments->sweep,
                    "Measure the whole grid too, and tell what the search lost against it");
  command->add_option("--json", arguments->json, "Write everything, as one JSON object")
      ->type_name("FILE")
      ->check(not_empty());
  command->callback([&chosen, arguments] {
    chosen = [arguments](const MpiSession& session) {
      if (session.distributed()) {
        input_error("tandem tune starts its ranks itself; run it without mpirun or srun");
      }
      return Tuner(*arguments).run();
    };
  });
}

}  // namespace tandem
