#include "launch/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/mps_environment.h"
#include "launch/mps_folder.h"
#include "launch/shared_memory_folder.h"

namespace tandem {
namespace {

std::vector<std::string> names_in_file(const std::string& path) {
  std::vector<std::string> names;
  std::ifstream file(path);
  if (!file) {
    input_error(
        "--hosts {}: cannot be read: {}; make it readable, or name the hosts with commas "
        "between",
        path, std::strerror(errno));
  }
  bool warned = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    std::string more;
    if (words >> name) names.push_back(name);
    if (!(words >> more)) continue;
    if (more.find('=') == std::string::npos) {
      input_error("--hosts {}:{}: '{} {}': expected one host a line", path, number, name, more);
    }
    if (warned) continue;
    warned = true;  // of the first line: the others are mostly alike
    log_warning(
        "--hosts {}:{}: '{}' is ignored; how many processes each host gets say --gpus and "
        "--ranks-per-gpu",
        path, number, more);
  }
  return names;
}

/// No host has such a name.
void expect_no_path(const std::string& text) {
  if (text.find('/') == std::string::npos) return;
  std::error_code code;
  const bool there = std::filesystem::exists(text, code);
  input_error("--hosts {}: {}; give a file with one host a line, or names with commas between",
              text, there ? "no ordinary file" : "no such file");
}

/// Anything else would be options, or a shell's business, to what starts the processes.
void expect_host_name(const std::string& text, const std::string& name) {
  const auto belongs = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (name.front() != '-' && std::ranges::all_of(name, belongs)) return;
  input_error("--hosts {}: '{}' is no host's name; give letters, digits, '.', '-' and '_'", text,
              name);
}

std::vector<std::string> mpirun_command(const LaunchPlan& plan, bool as_root) {
  std::vector<std::string> command{"mpirun"};
  if (as_root) command.emplace_back("--allow-run-as-root");
  if (plan.keeps_mpirun_quiet() && !plan.mpirun_speaks) command.emplace_back("-q");
  // The bootstrap binds each process itself, near its GPU.
  command.insert(command.end(), {"--oversubscribe", "--bind-to", "none"});
  if (!plan.hosts.empty()) {
    std::vector<std::string> places;
    for (const std::string& host : plan.hosts) {
      places.push_back(fmt::format("{}:{}", host, plan.processes_per_host));
    }
    command.insert(command.end(), {"--host", join(places, ",")});
  }
  // Its own environment goes to ranks of this host alone.
  if (!plan.keeps_mpirun_quiet()) {
    for (const auto& [name, value] : start_environment(plan)) {
      command.insert(command.end(), {"-x", name});
    }
    for (const std::string& name : plan.forwarded) command.insert(command.end(), {"-x", name});
  }
  command.insert(command.end(), {"-n", fmt::format("{}", plan.processes())});
  return command;
}

std::vector<std::string> srun_command(const LaunchPlan& plan) {
  std::vector<std::string> command{"srun",
                                   "--mpi=pmix",
                                   fmt::format("--nodes={}", plan.host_count),
                                   fmt::format("--ntasks={}", plan.processes()),
                                   fmt::format("--ntasks-per-node={}", plan.processes_per_host),
                                   "--cpu-bind=none",
                                   "--gpu-bind=none",
                                   "--kill-on-bad-exit=1"};
  if (plan.inside_step) command.emplace_back("--overlap");
  if (!plan.hosts.empty()) command.push_back("--nodelist=" + join(plan.hosts, ","));
  return command;
}

std::string variables_text(const LaunchPlan& plan, const Slot& slot) {
  std::string pipes;
  std::string logs;
  const bool reused = plan.rank.slot.reuse_mps && !slot.gpu.empty();
  if (reused) {
    pipes = "(of the running daemon)";
  } else if (slot.daemon >= 0) {
    const MpsFolder folder(MpsFolder::path_of(plan.rank.job));
    pipes = folder.pipe_directory(slot.daemon).string();
    logs = folder.log_directory(slot.daemon).string();
  }
  EnvironmentChanges changes = slot_environment(slot, plan.rank.slot, pipes, logs);
  const ReadEnvironment read = [](const char* name) { return std::getenv(name); };
  for (const auto& each : shared_memory_variables(plan.rank.job, read)) changes.push_back(each);
  std::string text;
  if (!slot.gpu.empty()) {
    for (const std::string& name : foreign_mps_limits(plan.rank.slot, read)) {
      text += " -u " + name;  // as of env
    }
  }
  for (const auto& [name, value] : changes) text += fmt::format(" {}={}", name, value);
  return text;
}

}  // namespace

std::vector<std::string> read_hosts(const std::string& text) {
  std::vector<std::string> names;
  std::error_code no_file;  // as a list that is too long for a name
  if (std::filesystem::is_regular_file(text, no_file)) {
    names = names_in_file(text);
  } else {
    expect_no_path(text);
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
      if (!word.empty()) names.push_back(word);
    }
  }
  if (names.empty()) input_error("--hosts {}: no host is named there", text);
  for (const std::string& name : names) expect_host_name(text, name);
  for (std::size_t at = 0; at < names.size(); ++at) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(at), names[at]) !=
        names.begin() + static_cast<std::ptrdiff_t>(at)) {
      input_error("--hosts {}: {} is named twice; name each host once", text, names[at]);
    }
  }
  return names;
}

std::vector<std::string> start_command(const LaunchPlan& plan, Starter starter, bool as_root) {
  std::vector<std::string> command =
      starter == Starter::srun ? srun_command(plan) : mpirun_command(plan, as_root);
  const std::vector<std::string> rank = rank_command(plan.program, plan.rank);
  command.insert(command.end(), rank.begin(), rank.end());
  return command;
}

EnvironmentChanges start_environment(const LaunchPlan& plan) {
  if (!plan.on_gpus || plan.rank.slot.reuse_mps) return {};
  return {{"CUDA_MPS_PIPE_DIRECTORY", no_mps_daemon}};
}

std::chrono::seconds ending_patience(const LaunchPlan& plan) {
  // Ranks survive SIGTERM where they train, and Slurm sends SIGKILL by default 30 s later
  // (KillWait).
  if (plan.starter == Starter::srun) return std::chrono::seconds(45);
  // Open MPI lets a second or two pass between the two, and asks each host's helper for both.
  return std::chrono::seconds(plan.host_count > 1 ? 6 : 5);
}

std::string plan_text(const LaunchPlan& plan, const HostSlots& slots, bool as_root) {
  std::string text = fmt::format("{} process{} on {} host{}, {} on each{}\n", plan.processes(),
                                 plan.processes() == 1 ? "" : "es", plan.host_count,
                                 plan.host_count == 1 ? "" : "s", plan.processes_per_host,
                                 plan.hosts.empty() ? "" : ": " + join(plan.hosts, ", "));
  for (std::size_t at = 0; at < slots.slots.size(); ++at) {
    const Slot& slot = slots.slots[at];
    text += fmt::format("  process {}: {}, cores {}\n", at,
                        slot.gpu.empty() ? "CPU" : fmt::format("{} ({})", slot.gpu_name, slot.gpu),
                        cpu_list_text(slot.cpus));
    const std::string variables = variables_text(plan, slot);
    if (!variables.empty()) text += fmt::format("   {}\n", variables);
  }
  if (plan.rank.slot.reuse_mps) {
    text += "  MPS: your running daemon\n";
  } else if (!slots.daemons.empty()) {
    text += fmt::format("  MPS: {} private daemon{}\n", slots.daemons.size(),
                        slots.daemons.size() == 1 ? "" : "s");
  }
  for (const Starter starter : {Starter::mpirun, Starter::srun}) {
    text += fmt::format("{}{}:\n ", starter == Starter::mpirun ? "mpirun" : "srun",
                        starter == plan.starter ? " (what is started)" : "");
    for (const auto& [name, value] : start_environment(plan)) {
      text += fmt::format(" {}={}", name, value);
    }
    text += fmt::format(" {}\n", shell_line(start_command(plan, starter, as_root)));
  }
  return text;
}

std::string shell_line(const std::vector<std::string>& words) {
  constexpr std::string_view harmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char letter : word) line += letter == '\'' ? "'\\''" : std::string(1, letter);
    line += '\'';
  }
  return line;
}

}  // namespace tandem
