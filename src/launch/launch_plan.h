#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/rank_bootstrap.h"

namespace tandem {

/// What starts the processes.
enum class Starter : std::uint8_t { mpirun, srun };

/// A job that `tandem launch` is to start, the same on each host.
struct LaunchPlan {
  Starter starter = Starter::mpirun;
  /// Names, each once; empty: this host alone, or with srun the allocation's.
  std::vector<std::string> hosts;
  bool names_this_host = false;  ///< they are this host alone
  int host_count = 1;
  /// With srun: inside a job step, whose resources only a step that overlaps it gets.
  bool inside_step = false;
  int processes_per_host = 1;
  bool on_gpus = false;  ///< each process has one, or a share of one
  /// Whether mpirun, on this host alone, says what it has to say of ranks that end. Its boxes say
  /// nothing there that ranks, or this program, do not say in a line.
  bool mpirun_speaks = false;
  /// Names of variables that ranks of other hosts get from mpirun (forwarded_variables()).
  std::vector<std::string> forwarded;
  RankRequest rank;
  std::string program;  ///< tandem's path, the same on all hosts

  int processes() const { return host_count * processes_per_host; }
  /// Whether mpirun starts all of them on this host, so that what it has to say is left out, but
  /// for mpirun_speaks, and this program says it.
  bool keeps_mpirun_quiet() const { return hosts.empty() || names_this_host; }
};

/// Host names of "a,b" or, where there is a file of that name, of an MPI hostfile: the first word
/// of each line, without comments; a warning says that further words ("slots=8") count for nothing.
/// Throws InputError where there are none, one is named twice, a line has two, or a path names no
/// file.
std::vector<std::string> read_hosts(const std::string& text);

/// The command line that starts the plan's processes, the starter first. As root, and with more
/// processes than cores, Open MPI is told that it is meant.
std::vector<std::string> start_command(const LaunchPlan& plan, Starter starter, bool as_root);

/// What is set in the starter's environment, and so in that of what it starts until a rank is told
/// its daemon: Open MPI's parts may use CUDA too, and are to be no clients of a daemon of the
/// user's. Empty for that one's ranks and without GPUs.
EnvironmentChanges start_environment(const LaunchPlan& plan);

/// How long the plan's starter may take to end the job once a rank of this host has failed, before
/// it counts as stuck: longer than where all goes well.
std::chrono::seconds ending_patience(const LaunchPlan& plan);

/// For people, before anything runs: hosts, each process's GPU, cores and variables (of this host,
/// as `slots` has them), and the commands.
std::string plan_text(const LaunchPlan& plan, const HostSlots& slots, bool as_root);

/// Words as a shell wants them.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace tandem
