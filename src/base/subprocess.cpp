#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/error.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// A pipe, whose ends a started program does not inherit by themselves.
class Pipe {
 public:
  Pipe() { TANDEM_CHECK(::pipe2(ends_.data(), O_CLOEXEC) == 0, "no pipe can be made"); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_reader() { close(ends_[0]); }
  void close_writer() { close(ends_[1]); }

 private:
  static void close(int& descriptor) {
    if (descriptor >= 0) static_cast<void>(::close(descriptor));  // nothing was written behind it
    descriptor = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

/// posix_spawnp()'s settings.
class SpawnSettings {
 public:
  SpawnSettings() {
    TANDEM_CHECK(
        posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0,
        "no memory to start a program");
  }
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  void use_as(int descriptor, int stream) {
    TANDEM_CHECK(posix_spawn_file_actions_adddup2(&actions, descriptor, stream) == 0,
                 "no memory to start a program");
  }
  /// Neither in this process's group nor deaf to the signals that this one ignores or blocks.
  void set_apart() {
    sigset_t all{};
    sigset_t none{};
    sigfillset(&all);
    sigemptyset(&none);
    TANDEM_CHECK(
        posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
            posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                      POSIX_SPAWN_SETSIGMASK) == 0,
        "no memory to start a program");
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

pid_t spawn(const ProgramCall& call, const Pipe& input, const Pipe& output) {
  SpawnSettings settings;
  settings.use_as(input.reader(), STDIN_FILENO);
  settings.use_as(output.writer(), STDOUT_FILENO);
  settings.use_as(output.writer(), STDERR_FILENO);
  settings.set_apart();
  std::vector<std::string> command = call.command;
  std::vector<std::string> environment = changed_environment(call.environment);
  pid_t process = -1;
  const int code =
      posix_spawnp(&process, command[0].c_str(), &settings.actions, &settings.attributes,
                   exec_array(command).data(), exec_array(environment).data());
  if (code != 0) system_error("{} cannot be started: {}", call.command[0], std::strerror(code));
  return process;
}

/// Takes what is there to be read, within `milliseconds`.
void drain(int descriptor, int milliseconds, std::string& text) {
  pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
  std::array<char, 4096> buffer;
  while (::poll(&ready, 1, milliseconds) > 0) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count <= 0) {
      // Its end, of which poll() would tell at once for ever.
      if (milliseconds > 0) static_cast<void>(::poll(nullptr, 0, milliseconds));
      return;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
    milliseconds = 0;
  }
}

}  // namespace

ProgramEnd run_program(const ProgramCall& call) {
  TANDEM_CHECK(call.input.size() <= 4096, "the input of {} may not fit a pipe", call.command.at(0));
  Pipe input;
  Pipe output;
  // Into the pipe's own memory: nobody need read yet, and no reader can have gone.
  TANDEM_CHECK(::write(input.writer(), call.input.data(), call.input.size()) ==
                   static_cast<ssize_t>(call.input.size()),
               "a pipe takes no {} bytes", call.input.size());
  input.close_writer();
  const pid_t process = spawn(call, input, output);
  output.close_writer();
  const Clock::time_point begin = Clock::now();
  ProgramEnd end;
  int status = 0;
  for (pid_t ended = 0; ended != process;) {
    constexpr int milliseconds = 5;
    drain(output.reader(), milliseconds, end.output);
    ended = ::waitpid(process, &status, WNOHANG);
    TANDEM_CHECK(ended >= 0 || errno == EINTR, "{} was waited for elsewhere", call.command[0]);
    const std::chrono::duration<double> taken = Clock::now() - begin;
    if (taken.count() < call.timeout_seconds || end.timed_out) continue;
    end.timed_out = true;
    static_cast<void>(::kill(-process, SIGKILL));  // fails where all of it has just ended
  }
  drain(output.reader(), 0, end.output);
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

std::vector<std::string> changed_environment(const EnvironmentChanges& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool changed = std::ranges::any_of(
        changes, [&](const auto& change) { return std::string_view(change.first) == name; });
    if (!changed) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> exec_array(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = fmt::format("{}/{}", folder, name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace tandem
