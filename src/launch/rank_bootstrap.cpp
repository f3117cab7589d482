#include "launch/rank_bootstrap.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/host_name.h"
#include "launch/holds_within.h"
#include "launch/mps_environment.h"
#include "launch/mps_folder.h"
#include "launch/mps_guard.h"
#include "launch/rank_watch.h"
#include "launch/shared_memory_folder.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "parallel/placement/launched_job.h"
#include "parallel/placement/mps_control.h"

namespace tandem {
namespace {

/// For the first local rank to make the folder, which may wait for free GPUs before, and for the
/// daemons to come up.
constexpr double folder_seconds = free_seconds + 7.0;
constexpr double first_daemon_seconds = 22.0;
constexpr double more_daemons_seconds = 5.0;
/// For a server of the user's own daemon to recover from a fault of a job before.
constexpr double recovery_seconds = 5.0;

/// A server recovers once the clients that met the fault have ended, as they do by it.
void require_sound_servers(const MpsControl& control) {
  std::vector<pid_t> faulty;
  const auto recovered = [&] {
    faulty = control.faulty_servers().value_or(std::vector<pid_t>{});
    return faulty.empty();
  };
  constexpr std::chrono::milliseconds pause(200);
  if (holds_within(recovery_seconds, pause, recovered)) return;
  system_error(
      "--reuse-mps: a client's device fault has spoilt the MPS server {} of the daemon in '{}', "
      "which takes no clients until all that it has are gone; end them, or the server (echo "
      "shutdown_server {} -f | {}), or leave --reuse-mps out",
      faulty.front(), control.pipe_directory().string(), faulty.front(), MpsControl::program);
}

/// A daemon may not answer a moment after its start, nor each of many that ask at once.
bool answers_soon(const MpsControl& control) {
  constexpr double patience_seconds = 3.0;
  return holds_within(patience_seconds, std::chrono::milliseconds(200),
                      [&] { return control.answers(); });
}

/// Of the user's own daemon, which is to be running.
std::string reused_daemon(const LocalPlace& place) {
  const MpsControl control = MpsControl::of_environment();
  std::string folder = control.pipe_directory().string();
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0 || !answers_soon(control)) {
    input_error(
        "--reuse-mps: no MPS daemon answers in '{}'; start it (nvidia-cuda-mps-control -d), set "
        "CUDA_MPS_PIPE_DIRECTORY, or leave --reuse-mps out",
        folder);
  }
  if (facts.st_uid != ::geteuid()) {
    input_error("--reuse-mps: the MPS daemon in '{}' is another user's; leave --reuse-mps out",
                folder);
  }
  if (place.rank == 0) require_sound_servers(control);  // for all of this host
  return folder;
}

/// The slot's MPS daemon's directories; the host's first rank starts the daemons.
EnvironmentChanges private_daemon(const RankRequest& request, const HostSlots& host,
                                  const LocalPlace& place, const Slot& slot) {
  const MpsFolder folder(MpsFolder::path_of(request.job));
  if (place.rank == 0) {
    folder.create();
    folder.join(0.0);
    start_mps_guard(folder.path(), host.daemons);
  } else {
    folder.join(folder_seconds);
  }
  const auto more = static_cast<double>(host.daemons.size() - 1);
  folder.wait_ready(first_daemon_seconds + more * more_daemons_seconds);
  return slot_environment(slot, request.slot, folder.pipe_directory(slot.daemon).string(),
                          folder.log_directory(slot.daemon).string());
}

EnvironmentChanges environment_of(const RankRequest& request, const HostSlots& host,
                                  const LocalPlace& place, const Slot& slot) {
  // Of one process on each GPU too: the daemon may hold the GPUs for itself.
  if (request.slot.reuse_mps && !slot.gpu.empty()) {
    return slot_environment(slot, request.slot, reused_daemon(place), "");
  }
  if (slot.daemon < 0) return slot_environment(slot, request.slot, "", "");
  return private_daemon(request, host, place, slot);
}

GpuList gpus_for(const SlotRequest& request, const LocalPlace& place, double driver_seconds) {
  if (request.gpus == "none") return {};
  const auto list = [driver_seconds] { return list_visible_gpus(driver_seconds); };
  if (place.rank == 0 && !request.reuse_mps) return list_once_free(request, list, free_seconds);
  GpuList host = list();
  // The first rank may be so far ahead that it is what computes there.
  for (GpuInfo& gpu : host.gpus) gpu.busy = false;
  return host;
}

}  // namespace

std::vector<std::string> rank_command(const std::string& program, const RankRequest& request) {
  std::vector<std::string> command{
      program,       "launch-rank",
      "--job",       request.job,
      "--gpus",      request.slot.gpus,
      "--processes", fmt::format("{}", request.slot.processes_per_gpu)};
  if (request.slot.sm_percent > 0) {
    command.insert(command.end(), {"--sm-percent", fmt::format("{}", request.slot.sm_percent)});
  }
  if (request.slot.reuse_mps) command.emplace_back("--reuse-mps");
  if (request.slot.oversubscribe) command.emplace_back("--oversubscribe");
  command.emplace_back("--");
  command.insert(command.end(), request.command.begin(), request.command.end());
  return command;
}

LocalPlace read_local_place(const ReadEnvironment& environment) {
  const auto number = [&](const char* name) { return environment_number(environment, name); };
  struct Names {
    const char* rank;
    const char* size;
  };
  // From the inside out, as read_launched_job() does.
  for (const auto& [rank, size] :
       {Names{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        Names{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
        Names{"SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}}) {
    if (const auto value = number(rank)) return {*value, number(size).value_or(0)};
  }
  input_error(
      "tandem launch-rank: neither mpirun nor srun started this process; `tandem launch` is the "
      "command to use");
}

EnvironmentChanges slot_environment(const Slot& slot, const SlotRequest& request,
                                    const std::string& pipes, const std::string& logs) {
  EnvironmentChanges changes;
  // An empty list hides all GPUs from CUDA, which would compute on those that it sees.
  if (!slot.gpu.empty() || request.gpus == "none") {
    changes.emplace_back("CUDA_VISIBLE_DEVICES", slot.gpu);
  }
  if (!slot.gpu.empty()) {
    changes.emplace_back("CUDA_MPS_PIPE_DIRECTORY", pipes.empty() ? no_mps_daemon : pipes);
  }
  if (!logs.empty()) changes.emplace_back("CUDA_MPS_LOG_DIRECTORY", logs);
  if (!pipes.empty() && request.sm_percent > 0) {
    changes.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                         fmt::format("{}", request.sm_percent));
  }
  return changes;
}

int run_rank(const RankRequest& request) {
  const ReadEnvironment read = [](const char* name) { return std::getenv(name); };
  const LocalPlace place = read_local_place(read);
  const GpuList gpus = gpus_for(request.slot, place, mpi_start_seconds(read));
  const HostSlots host = deal_slots(request.slot, gpus, usable_cores());
  const int slots = static_cast<int>(host.slots.size());
  if (place.rank >= slots || (place.size > 0 && place.size != slots)) {
    const int started = std::max(place.size, place.rank + 1);
    if (gpus.gpus.empty()) {
      input_error(
          "host {} holds {} processes, but {} were started there; has the job this host under two "
          "names?",
          host_name(), slots, started);
    }
    input_error(
        "host {} holds {} processes ({} GPUs, {} on each), but {} were started there; the hosts of "
        "a job need as many GPUs each: say which with --gpus",
        host_name(), slots, slots / request.slot.processes_per_gpu, request.slot.processes_per_gpu,
        started);
  }
  const Slot& slot = host.slots[static_cast<std::size_t>(place.rank)];
  if (!slot.gpu.empty()) {
    // Before the daemon is started, which inherits them as the ranks do.
    for (const std::string& name : foreign_mps_limits(request.slot, read)) {
      TANDEM_CHECK(::unsetenv(name.c_str()) == 0, "{} cannot be unset", name);
    }
  }
  EnvironmentChanges environment = environment_of(request, host, place, slot);
  const SharedMemoryFolderHold shared_memory_folder(request.job);
  for (const auto& each : shared_memory_folder.variables(read)) environment.push_back(each);
  bind_to(slot.cpus);
  std::vector<std::string> command{own_program()};
  command.insert(command.end(), request.command.begin(), request.command.end());
  const int others = read_launched_job(read).size - slots;
  return watch_rank(command, environment,
                    {.job = request.job,
                     .local_rank = place.rank,
                     .local_size = slots,
                     .device = slot.gpu,
                     .others = others});
}

}  // namespace tandem
