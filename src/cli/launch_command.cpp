#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/launched_command.h"
#include "cli/rank_config.h"
#include "cli/requested_gpus.h"
#include "cli/resumed_command.h"
#include "cli/tuned_placement.h"
#include "cli/usage_error.h"
#include "device/host_memory.h"
#include "device/open_context.h"
#include "launch/end_notice.h"
#include "launch/forwarded_variables.h"
#include "launch/job_supervisor.h"
#include "launch/launch_plan.h"
#include "launch/mps_environment.h"
#include "launch/reused_mps.h"
#include "launch/this_host.h"
#include "parallel/mpi/mpi_session.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "train/device_memory_need.h"
#include "train/host_memory_need.h"
#include "train/planned_run.h"

namespace tandem {
namespace {

struct LaunchArguments {
  SlotRequest slot{.gpus = ""};  ///< GPUs as requested_gpus() takes them
  std::string ranks_per_gpu = "1";
  std::string colocation = "auto";
  std::string hosts;
  int max_restarts = 0;
  bool dry_run = false;
  std::vector<std::string> command;
};

const char* variable(const char* name) { return std::getenv(name); }

int number_of_variable(const char* name) {
  const char* text = variable(name);
  return text == nullptr ? 0 : parse_number<int>(text).value_or(0);
}

/// Whether this host is one of the job's.
bool includes_this_host(const LaunchPlan& plan) {
  if (plan.hosts.empty()) {
    return plan.starter == Starter::mpirun || variable("SLURMD_NODENAME") != nullptr;
  }
  return std::ranges::any_of(plan.hosts, is_this_host);
}

/// This host's GPUs, a while later where an earlier job's MPS daemon still has some. The user's own
/// daemon stays there.
GpuList gpus_of_host(const SlotRequest& slot, bool dry_run) {
  if (slot.gpus == "none") return {};
  const auto list = [] { return list_visible_gpus(mpi_start_seconds(variable)); };
  return dry_run || slot.reuse_mps ? list() : list_once_free(slot, list, free_seconds);
}

void add_override(std::vector<std::string>& command, const std::string& assignment) {
  command.insert(command.end(), {"--set", assignment});
}

bool sets(const std::string& assignment, std::string_view key) {
  return ConfigTable::key_of(assignment) == key;
}

/// `tandem tune` as it finds a choice for the plan: on this host alone, with its share of the
/// batch, or inside a Slurm allocation on all of its hosts, where the tuner's runs start as the
/// plan does.
std::string tune_line(const LaunchPlan& plan) {
  const std::vector<std::string>& command = plan.rank.command;
  const bool share = plan.host_count > 1 && plan.starter == Starter::mpirun;
  std::vector<std::string> words{"tandem", "tune", command.at(1)};
  for (const std::string& setting : values_of(command, "--set")) {
    if (!share || !sets(setting, "train.global_batch")) add_override(words, setting);
  }
  if (share) {
    const std::int64_t batch = launched_config(command).global_batch / plan.host_count;
    add_override(words, fmt::format("train.global_batch={}", batch));
  }
  const std::string& gpus = plan.rank.slot.gpus;
  if (gpus != requested_gpus("", launched_device(command))) {
    words.insert(words.end(), {"--gpus", gpus});
  }
  return shell_line(words) + (share ? " on this host, for its share of the batch" : "");
}

/// What a choice was measured on, where that is not what it is taken for.
std::string origin_text(const TunedPlacement& choice, const LaunchPlan& plan) {
  if (choice.hosts == plan.host_count) return "";
  return fmt::format(" on {}, with as much of the batch for each host",
                     choice.hosts == 1 ? "one host" : fmt::format("{} hosts", choice.hosts));
}

/// --ranks-per-gpu auto: what the tuner chose, loader workers included where the command sets none.
Placement tuned(const PlacementHost& host, LaunchPlan& plan) {
  std::vector<std::string>& command = plan.rank.command;
  if (command[0] == "eval") {
    log_warning(
        "--ranks-per-gpu auto: tandem tune chooses for training alone; one rank on each device");
    return {};
  }
  const std::optional<TunedPlacement> choice = tuned_placement(command, host, plan.host_count);
  if (!choice) {
    log_warning("not tuned yet: one rank on each device; run {}", tune_line(plan));
    return {};
  }
  log_info("tuned on {}{}: {}, {} loader worker{} each", choice->date, origin_text(*choice, plan),
           text_of(choice->placement), choice->loader_workers,
           choice->loader_workers == 1 ? "" : "s");
  const bool has_own = std::ranges::any_of(
      values_of(command, "--set"),
      [](const std::string& assignment) { return sets(assignment, "data.workers"); });
  if (!has_own) add_override(command, fmt::format("data.workers={}", choice->loader_workers));
  return choice->placement;
}

Placement requested(const LaunchArguments& arguments) {
  const auto ranks = parse_number<int>(arguments.ranks_per_gpu);
  if (!ranks || *ranks < 1) {
    input_error("--ranks-per-gpu {}: give a number from 1 on, or auto", arguments.ranks_per_gpu);
  }
  constexpr int most = 4096;  // more than any host starts
  if (*ranks > most) input_error("--ranks-per-gpu {}: at most {}", *ranks, most);
  return {.ranks_per_device = *ranks};
}

/// A number of ranks on each device, as the tuner found them faster where it chose as many.
Placement requested_here(const LaunchArguments& arguments, const PlacementHost& host,
                         const LaunchPlan& plan) {
  const Placement asked = requested(arguments);
  const std::vector<std::string>& command = plan.rank.command;
  if (asked.ranks_per_device == 1 || command[0] == "eval") return asked;
  const int folded = launched_config(command).folded_ranks;
  if (folded > 1 && arguments.colocation != "folded") {
    // As the config of a run has it that was started with folded ranks.
    log_info(
        "each of the {} processes on a {} carries {} folded ranks, as the config's "
        "parallel.folded_ranks says; --set parallel.folded_ranks=1 makes them ranks themselves",
        asked.ranks_per_device, plan.on_gpus ? "GPU" : "host", folded);
  }
  if (arguments.colocation != "auto" || arguments.slot.sm_percent > 0 || folded > 1) return asked;
  const std::optional<TunedPlacement> choice = tuned_placement(command, host, plan.host_count);
  if (choice && choice->placement.ranks_per_device == asked.ranks_per_device) {
    Placement placement = choice->placement;
    // Of the user's own daemon the environment says the share.
    if (arguments.slot.reuse_mps) placement.sm_percent = 0;
    log_info("tuned on {}{}: {}", choice->date, origin_text(*choice, plan), text_of(placement));
    return placement;
  }
  if (plan.on_gpus) {
    log_info(
        "{} processes share each GPU; --colocation folded computes the same in one, and tandem "
        "tune measures which is faster",
        asked.ranks_per_device);
  }
  return asked;
}

/// Options that mean nothing without GPUs.
void require_no_gpu_options(const SlotRequest& slot) {
  if (slot.sm_percent > 0) {
    input_error(
        "--sm-percent {}: the ranks compute on CPUs, whose share it does not limit; leave it "
        "out",
        slot.sm_percent);
  }
  if (slot.reuse_mps) {
    input_error("--reuse-mps: the ranks compute on CPUs, which need no MPS daemon; leave it out");
  }
}

/// Settles how the ranks of a device lie on it.
void place_ranks(const LaunchArguments& arguments, Placement placement, RankRequest& rank) {
  if (arguments.colocation == "folded") placement.colocation = Colocation::folded;
  if (arguments.colocation == "processes") placement.colocation = Colocation::processes;
  const bool folded = placement.colocation == Colocation::folded && placement.ranks_per_device > 1;
  rank.slot.processes_per_gpu = folded ? 1 : placement.ranks_per_device;
  if (rank.slot.sm_percent > 0 && rank.slot.processes_per_gpu == 1) {
    input_error(
        "--sm-percent {}: only processes that share a GPU can be limited; leave it out, or ask for "
        "more with --ranks-per-gpu and --colocation processes",
        rank.slot.sm_percent);
  }
  // Of processes alone, as which the tuner measured it.
  if (rank.slot.sm_percent == 0 && !folded) rank.slot.sm_percent = placement.sm_percent;
  // The tuner measures as many ranks as it says, whatever the config folds.
  if (folded || arguments.ranks_per_gpu == "auto") {
    add_override(rank.command,
                 fmt::format("parallel.folded_ranks={}", folded ? placement.ranks_per_device : 1));
  }
}

/// What mpirun would tell late.
void require_one_name_of_this_host(const std::string& asked,
                                   const std::vector<std::string>& hosts) {
  const auto first = std::ranges::find_if(hosts, is_certainly_this_host);
  if (first == hosts.end()) return;
  const auto second = std::find_if(std::next(first), hosts.end(), is_certainly_this_host);
  if (second == hosts.end()) return;
  input_error("--hosts {}: {} and {} are both this host; name each host once", asked, *first,
              *second);
}

/// Hosts and how to start there: inside a Slurm allocation with srun, unless hosts are named.
void choose_hosts(const LaunchArguments& arguments, LaunchPlan& plan) {
  plan.inside_step = variable("SLURM_STEP_ID") != nullptr;
  if (!arguments.hosts.empty()) {
    plan.hosts = read_hosts(arguments.hosts);
    plan.host_count = static_cast<int>(plan.hosts.size());
    require_one_name_of_this_host(arguments.hosts, plan.hosts);
    plan.names_this_host = plan.host_count == 1 && is_certainly_this_host(plan.hosts.front());
  } else if (variable("SLURM_JOB_ID") != nullptr && !program_on_path("srun").empty()) {
    plan.starter = Starter::srun;
    plan.host_count = std::max(1, number_of_variable("SLURM_JOB_NUM_NODES"));
  }
}

void check_device_memory(const RunConfig& config, const LaunchPlan& plan,
                         const std::vector<GpuInfo>& gpus) {
  // Of a driver that does not say, 0.
  const auto least = std::ranges::min_element(gpus, {}, &GpuInfo::memory_bytes);
  if (least->memory_bytes == 0) return;
  require_device_memory(config,
                        {.processes = plan.rank.slot.processes_per_gpu,
                         .devices = static_cast<int>(gpus.size()) * plan.host_count},
                        {.name = fmt::format("{} ({})", least->uuid, least->name),
                         .bytes = static_cast<std::size_t>(least->memory_bytes)});
}

/// The ranks would say so too, and mpirun more behind them.
void check_batch(const LaunchPlan& plan) {
  if (plan.rank.command[0] == "eval") return;
  require_dealt_batch(launched_config(plan.rank.command),
                      std::int64_t{plan.processes_per_host} * plan.host_count);
}

/// Ranks on CPUs would find it out too late, when the kernel ends one of them. Those on GPUs look
/// at what is free before their first step, once MPS and MPI have started and kernels are chosen.
void check_memory(const LaunchPlan& plan, const std::vector<GpuInfo>& gpus) {
  if (plan.rank.command[0] == "eval") return;
  const RunConfig config = launched_config(plan.rank.command);
  const bool on_gpus =
      config.device == DeviceKind::cuda || (built_with_cuda() && config.device != DeviceKind::cpu);
  if (on_gpus && !gpus.empty()) {
    check_device_memory(config, plan, gpus);
    return;
  }
  if (const std::optional<std::size_t> available = available_host_memory()) {
    require_host_memory(config, {.processes = plan.processes_per_host, .hosts = plan.host_count},
                        *available);
  }
}

void check_mps_environment(const SlotRequest& slot) {
  require_mps_share(slot, variable);
  warn_of_foreign_mps(slot, variable);
}

/// On this host; whether the others' daemons take the ranks their GPUs' server says.
void check_mps(const SlotRequest& slot, const std::vector<GpuInfo>& used) {
  check_mps_environment(slot);
  // The daemon has clients on GPUs too that CUDA_VISIBLE_DEVICES hides from this job.
  if (slot.reuse_mps) {
    require_free_clients(slot, list_gpus(mpi_start_seconds(variable)), used,
                         MpsControl::of_environment());
  }
}

/// Settles, of a job of this host too, what each host's ranks get, and checks it before anything
/// starts, and of a dry run too.
HostSlots deal_to_this_host(const LaunchArguments& arguments, LaunchPlan& plan) {
  static_cast<void>(mpi_start_seconds(variable));  // which the ranks read
  SlotRequest& slot = plan.rank.slot;
  const DeviceKind device = launched_device(plan.rank.command);
  slot.gpus = requested_gpus(arguments.slot.gpus, device);
  const GpuList gpus = gpus_of_host(slot, arguments.dry_run);
  const std::vector<GpuInfo> used = choose_gpus(slot.gpus, gpus);
  plan.on_gpus = !used.empty();
  if (used.empty()) {
    require_no_gpu_options(slot);
  } else {
    warn_of_idle_gpus(slot.gpus, device);
  }
  const Placement placement = arguments.ranks_per_gpu == "auto"
                                  ? tuned(placement_host(used, gpus), plan)
                                  : requested_here(arguments, placement_host(used, gpus), plan);
  place_ranks(arguments, placement, plan.rank);
  HostSlots slots = deal_slots(slot, gpus, usable_cores());
  plan.processes_per_host = static_cast<int>(slots.slots.size());
  check_batch(plan);
  check_memory(plan, used);
  warn_of_other_users(used);
  if (!used.empty()) check_mps(slot, used);
  return slots;
}

/// launched_device(), "auto" where the config does not read here: other hosts' may.
DeviceKind device_of_other_hosts(const std::vector<std::string>& command) {
  try {
    return launched_device(command);
  } catch (const InputError&) {
    return DeviceKind::automatic;
  }
}

/// The same of a job of other hosts alone, of which nothing is known here but what they compute on.
void ask_of_other_hosts(const LaunchArguments& arguments, LaunchPlan& plan) {
  static_cast<void>(mpi_start_seconds(variable));  // which the ranks read
  SlotRequest& slot = plan.rank.slot;
  const DeviceKind device = device_of_other_hosts(plan.rank.command);
  slot.gpus = requested_gpus(arguments.slot.gpus, device);
  plan.on_gpus = slot.gpus != "none";
  if (plan.on_gpus) {
    warn_of_idle_gpus(slot.gpus, device);
  } else {
    require_no_gpu_options(slot);
  }
  if (arguments.ranks_per_gpu == "auto") {
    input_error(
        "--ranks-per-gpu auto: what was tuned goes by the devices of the job's hosts, and this "
        "host is none of them; start tandem launch on one of them, or give a number");
  }
  place_ranks(arguments, requested(arguments), plan.rank);
  plan.processes_per_host = processes_of_other_hosts(slot);
  if (plan.on_gpus) check_mps_environment(slot);
}

/// resumed_command(), by a launcher that waits no longer for a disk than ranks for what they read
/// first, or than a job that ends by it may be made to wait.
Continuation continuation(const std::vector<std::string>& command, const CheckpointFiles& before,
                          bool is_restart) {
  constexpr double at_the_end = 4.0;
  const auto found = std::make_shared<Continuation>();
  const double most = rank_files_seconds();
  try_files(is_restart || most == 0.0 ? most : std::min(most, at_the_end),
            [found, command, before] { *found = resumed_command(command, before); });
  return *found;
}

int launch(const LaunchArguments& arguments) {
  if (!may_launch(&variable)) {
    input_error("tandem launch starts mpirun itself; start it without mpirun");
  }
  require_launched_command(arguments.command);
  LaunchPlan plan;
  plan.mpirun_speaks = shows_debug_log();
  choose_hosts(arguments, plan);
  plan.program = own_program();
  plan.rank = {.slot = arguments.slot, .job = new_job_name(), .command = arguments.command};
  const bool is_here = includes_this_host(plan);
  HostSlots slots;  // none where this host is none of the job's
  if (is_here) {
    slots = deal_to_this_host(arguments, plan);
  } else {
    ask_of_other_hosts(arguments, plan);
  }
  plan.forwarded = forwarded_variables(environment_texts(), plan.rank.slot.reuse_mps);
  if (arguments.dry_run) {
    std::cout << plan_text(plan, slots, ::geteuid() == 0);
    return 0;
  }
  // A restart would go on with what it finds there, also of hosts whose ranks look for themselves.
  CheckpointFiles before;
  if (is_here || arguments.max_restarts > 0) {
    await_rank_files([&] {
      require_fresh_folder(plan.rank.command);
      before = checkpoints_before(plan.rank.command);
    });
  }
  const auto go_on = [&before](const std::vector<std::string>& command, bool is_restart) {
    return continuation(command, before, is_restart);
  };
  return supervise(plan, {.max_restarts = arguments.max_restarts, .go_on = go_on});
}

/// What becomes of it the launcher is told: by what watches the rank, or, where that or what comes
/// before it fails, once main() has said why.
int launch_rank(const RankRequest& request) {
  try {
    // As among ranks, the first one speaks of what meets them all.
    set_process_rank(read_launched_job(&variable).rank);
    return run_rank(request);
  } catch (const std::exception&) {
    notify_end_at_exit(request.job, failure_code());
    throw;
  }
}

/// The command's words as they were typed: CLI11 takes one in brackets, as a folder may be called,
/// for a list.
void take_words(const std::vector<std::string>& behind_dashes, std::vector<std::string>& command) {
  const bool all = !behind_dashes.empty() && behind_dashes.front() == command.front();
  if (all) command = behind_dashes;
}

void add_slot_options(CLI::App& command, SlotRequest& slot) {
  command
      .add_option("--gpus", slot.gpus,
                  "GPUs of each host: all, none (the CPU), a number, or a list of indices and "
                  "UUIDs (\"1,\" is GPU 1 alone); default: all, but none for a run that computes "
                  "on CPUs alone")
      ->type_name("all|none|N|LIST")
      ->check(not_empty("list of GPUs"));
  command
      .add_option("--sm-percent", slot.sm_percent,
                  "Share of a GPU's multiprocessors that each of its processes may use at most")
      ->type_name("PERCENT")
      ->check(within(1, 100));
  command.add_flag("--reuse-mps", slot.reuse_mps,
                   "Use your MPS daemon that runs already (CUDA_MPS_PIPE_DIRECTORY) instead of a "
                   "private one");
  command.add_flag("--oversubscribe", slot.oversubscribe,
                   "Start more ranks on a host without GPUs than it has CPUs");
}

}  // namespace

void add_launch_command(CLI::App& app, Command& chosen,
                        const std::vector<std::string>& behind_dashes) {
  CLI::App* command =
      app.add_subcommand("launch", "Start ranks on GPUs, hosts and cores, several on each GPU");
  command->footer(
      "Starts mpirun, or srun inside a Slurm allocation, with K processes for each GPU of each "
      "host, or K on each host without GPUs. Each process is bound to its GPU and to its share of "
      "the cores near it. Several processes of a GPU run under a private CUDA MPS daemon, which "
      "ends with them, however they end.\n"
      "SIGINT, SIGTERM, SIGHUP or SIGUSR1: a checkpoint of train at the next step, exit code 75; "
      "once more (but SIGUSR1), more than a second later: the end now.\n"
      "Example: tandem launch --ranks-per-gpu 4 --max-restarts 3 -- train "
      "examples/photos/resnet18.toml\n"
      "More: docs/launch.md");
  auto arguments = std::make_shared<LaunchArguments>();
  add_slot_options(*command, arguments->slot);
  command
      ->add_option("--ranks-per-gpu", arguments->ranks_per_gpu,
                   "Ranks that share each GPU (each host, without GPUs); auto: what `tandem tune` "
                   "chose")
      ->type_name("K|auto")
      ->capture_default_str();
  command
      ->add_option("--colocation", arguments->colocation,
                   "What a GPU's ranks are: processes under MPS, or folded into one process; auto: "
                   "what `tandem tune` chose where it chose as many ranks, else processes")
      ->check(one_of({"processes", "folded", "auto"}))
      ->capture_default_str();
  command
      ->add_option("--hosts", arguments->hosts,
                   "Hosts with commas between, or a file of them, one a line (default: this host, "
                   "or the Slurm allocation's)")
      ->type_name("a,b|FILE")
      ->check(not_empty("list of hosts"));
  command
      ->add_option("--max-restarts", arguments->max_restarts,
                   "Start a job that failed again this often, from its newest sound checkpoint")
      ->type_name("N")
      ->check(within(0, 1000000))
      ->capture_default_str();
  command->add_flag("--dry-run", arguments->dry_run,
                    "Say what would be started, and start nothing");
  command
      ->add_option("COMMAND", arguments->command, "After --: train, bench or eval, with arguments")
      ->required();
  command->callback([&chosen, arguments, behind_dashes] {
    take_words(behind_dashes, arguments->command);
    chosen = [arguments](const MpiSession&) { return launch(*arguments); };
  });
}

void add_launch_rank_command(CLI::App& app, Command& chosen,
                             const std::vector<std::string>& behind_dashes) {
  CLI::App* command = app.add_subcommand("launch-rank", "What tandem launch starts for each rank");
  command->group("");  // not for people
  auto request = std::make_shared<RankRequest>();
  add_slot_options(*command, request->slot);
  command->add_option("--job", request->job)->required();
  command->add_option("--processes", request->slot.processes_per_gpu)->required();
  command->add_option("COMMAND", request->command)->required();
  command->callback([&chosen, request, behind_dashes] {
    take_words(behind_dashes, request->command);
    chosen = [request](const MpiSession&) { return launch_rank(*request); };
  });
}

}  // namespace tandem
