#include "parallel/placement/mps_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/subprocess.h"
#include "base/text.h"

namespace tandem {
namespace {

/// The number that each line begins with; lines that begin with none are talk.
std::vector<pid_t> numbers(const std::string& text) {
  std::vector<pid_t> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    if (!(std::istringstream(line) >> word)) continue;
    if (const auto number = parse_number<pid_t>(word)) all.push_back(*number);
  }
  return all;
}

}  // namespace

MpsControl::MpsControl(std::filesystem::path pipe_directory, double timeout_seconds)
    : pipe_directory_(std::move(pipe_directory)), timeout_seconds_(timeout_seconds) {}

MpsControl MpsControl::of_environment() {
  const char* directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return MpsControl(directory != nullptr ? directory : "/tmp/nvidia-mps");
}

std::optional<std::string> MpsControl::ask(const std::string& command) const {
  // Without its folder there is no daemon, and mostly no program either.
  std::error_code no_access;  // as below another user's folder
  if (!std::filesystem::is_directory(pipe_directory_, no_access)) return std::nullopt;
  if (program_on_path(program).empty()) return std::nullopt;
  const ProgramEnd end =
      run_program({.command = {program},
                   .input = command + "\n",
                   .environment = {{"CUDA_MPS_PIPE_DIRECTORY", pipe_directory_.string()}},
                   .timeout_seconds = timeout_seconds_});
  if (end.timed_out || end.code != 0) return std::nullopt;
  return end.output;
}

std::optional<std::vector<pid_t>> MpsControl::servers() const {
  const std::optional<std::string> answer = ask("get_server_list");
  if (!answer) return std::nullopt;
  return numbers(*answer);
}

std::optional<std::vector<pid_t>> MpsControl::faulty_servers() const {
  std::optional<std::vector<pid_t>> found = servers();
  if (!found) return std::nullopt;
  std::erase_if(*found, [&](pid_t server) {
    // One that has ended since it was listed has no state, and drivers that know of none say so.
    const std::optional<std::string> state = ask(fmt::format("get_server_status {}", server));
    return !state || state->find("FAULT") == std::string::npos;
  });
  return found;
}

std::optional<std::vector<pid_t>> MpsControl::clients() const {
  const std::optional<std::vector<pid_t>> running = servers();
  if (!running) return std::nullopt;
  std::vector<pid_t> all;
  for (const pid_t server : *running) {
    const std::optional<std::string> answer = ask(fmt::format("get_client_list {}", server));
    if (!answer) {
      // One may have ended since it was listed, and has no clients then.
      const std::optional<std::vector<pid_t>> left = servers();
      if (!left || std::ranges::find(*left, server) != left->end()) return std::nullopt;
      continue;
    }
    std::ranges::copy(numbers(*answer), std::back_inserter(all));
  }
  return all;
}

bool MpsControl::quit(int seconds) const {
  return ask(fmt::format("quit -t {}", seconds)).has_value();
}

}  // namespace tandem
