#include "launch/mps_daemon.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/process_table.h"
#include "base/subprocess.h"
#include "launch/holds_within.h"
#include "parallel/placement/mps_control.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// For a daemon to answer after its start, and to end after `quit`.
constexpr double start_seconds = 8.0;
constexpr double end_seconds = 5.0;

template <typename Condition>
bool holds_in_time(double seconds, const Condition& condition) {
  return holds_within(seconds, std::chrono::milliseconds(20), condition);
}

/// The MPS programs of this user whose environment names the pipe directory: the control daemon,
/// with the servers that it started.
std::vector<pid_t> processes_of(const fs::path& pipe_directory) {
  std::vector<pid_t> found;
  const std::string wanted = "CUDA_MPS_PIPE_DIRECTORY=" + pipe_directory.string();
  for (const pid_t process : all_processes()) {
    const fs::path facts = fs::path("/proc") / fmt::format("{}", process);
    std::ifstream name_file(facts / "comm");
    std::string name;
    std::getline(name_file, name);
    if (!name.starts_with("nvidia-cuda-mps")) continue;
    const std::vector<std::string> environment = environment_of(process);
    if (std::ranges::find(environment, wanted) != environment.end()) found.push_back(process);
  }
  return found;
}

}  // namespace

void end_mps_daemon(const fs::path& pipe_directory) {
  const auto gone = [&] { return processes_of(pipe_directory).empty(); };
  // Its clients are gone already: this only hurries servers that still believe in them.
  constexpr int server_seconds = 2;
  if (!gone()) static_cast<void>(MpsControl(pipe_directory, end_seconds).quit(server_seconds));
  if (holds_in_time(end_seconds, gone)) return;
  // Fails only where the process has ended just now.
  for (const pid_t process : processes_of(pipe_directory)) {
    static_cast<void>(::kill(process, SIGKILL));
  }
}

MpsDaemon::MpsDaemon(fs::path pipe_directory, fs::path log_directory,
                     const std::string& visible_devices)
    : pipe_directory_(std::move(pipe_directory)), log_directory_(std::move(log_directory)) {
  fs::create_directory(pipe_directory_);
  fs::create_directory(log_directory_);
  try {
    start(visible_devices);
  } catch (const Error&) {
    end_mps_daemon(pipe_directory_);
    throw;
  }
}

MpsDaemon::~MpsDaemon() { end_mps_daemon(pipe_directory_); }

void MpsDaemon::start(const std::string& visible_devices) const {
  if (program_on_path(MpsControl::program).empty()) {
    system_error(
        "{} is not on PATH (it comes with NVIDIA's driver): several processes of a GPU "
        "need it; use --colocation folded or --ranks-per-gpu 1",
        MpsControl::program);
  }
  const ProgramEnd started =
      run_program({.command = {MpsControl::program, "-d"},
                   .environment = {{"CUDA_MPS_PIPE_DIRECTORY", pipe_directory_.string()},
                                   {"CUDA_MPS_LOG_DIRECTORY", log_directory_.string()},
                                   {"CUDA_VISIBLE_DEVICES", visible_devices}},
                   .timeout_seconds = start_seconds});
  constexpr double answer_seconds = 2.0;
  const MpsControl control(pipe_directory_, answer_seconds);
  const auto answers = [&] { return control.answers(); };
  if (started.code == 0 && !started.timed_out && holds_in_time(start_seconds, answers)) return;
  system_error("the MPS daemon does not start{}: {}",
               started.code != 0
                   ? fmt::format(" ({} ended with {})", MpsControl::program, started.code)
                   : std::string(),
               started.output.empty() ? log_end() : started.output);
}

std::string MpsDaemon::log_end() const {
  std::ifstream file(log_directory_ / "control.log");
  std::string last = "its log is empty";
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace tandem
