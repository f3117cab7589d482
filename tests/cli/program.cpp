#include "cli/program.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto poll_interval = std::chrono::milliseconds(5);

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// As root, and with more ranks than cores, Open MPI wants to be told that it is meant.
constexpr std::pair<const char*, const char*> mpi_environment[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
};

void redirect(const fs::path& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
  static_cast<void>(::close(file));
}

/// The parent's id; 0 of a process that is gone.
pid_t parent_of(pid_t process) {
  const std::string status = read_file(fs::path("/proc") / std::to_string(process) / "status");
  constexpr std::string_view key = "\nPPid:\t";
  const std::size_t at = status.find(key);
  return at == std::string::npos ? 0 : std::atoi(status.c_str() + at + key.size());
}

/// Whether `ancestor` started the process, or what started it, and so on.
bool descends_from(pid_t process, pid_t ancestor) {
  for (pid_t each = parent_of(process); each > 1; each = parent_of(each)) {
    if (each == ancestor) return true;
  }
  return false;
}

/// Whether the process is that rank of an MPI job that `starter` started: neither what watches the
/// rank, nor what guards its MPS daemon, which has left the job only once it is under way, nor
/// another program that one of these asks.
bool is_rank(pid_t id, pid_t starter, int rank) {
  if (!descends_from(id, starter)) return false;
  const fs::path process = fs::path("/proc") / std::to_string(id);
  std::string environment(1, '\0');
  environment += read_file(process / "environ");
  std::string wanted(1, '\0');
  wanted += "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  wanted += '\0';
  if (environment.find(wanted) == std::string::npos) return false;
  // Read last: while a process becomes another program, it has no command line yet, and then it has
  // one before it has an environment.
  const std::string command = read_file(process / "cmdline");
  return fs::path(command.c_str()).filename() == "tandem" &&
         command.find("launch-rank") == std::string::npos &&
         command.find("mps-guard") == std::string::npos;
}

}  // namespace

Program::Program(Launch launch) : launch_(std::move(launch)) { start(); }

Program::~Program() {
  if (id_ > 0) {
    launch_.timeout = 0.0;
    static_cast<void>(wait());
  }
  if (terminal_ >= 0) static_cast<void>(::close(terminal_));
}

void Program::prepare_child() const {
  // The test run itself may be under nohup.
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1}) std::signal(number, SIG_DFL);
  for (const int number : launch_.ignored_signals) std::signal(number, SIG_IGN);
  if (!launch_.terminal) {
    if (::setsid() < 0) ::_exit(126);
    redirect(streams_ / "out", STDOUT_FILENO);
    redirect(streams_ / "err", STDERR_FILENO);
  }
  if (!launch_.folder.empty() && ::chdir(launch_.folder.c_str()) != 0) ::_exit(126);
  for (const auto& [key, value] : mpi_environment) ::setenv(key, value, 1);
  for (const auto& [key, value] : launch_.environment) ::setenv(key.c_str(), value.c_str(), 1);
}

void Program::start() {
  started_ = now();
  if (launch_.terminal) {
    winsize size{};
    size.ws_row = 40;
    size.ws_col = 100;
    id_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (id_ > 0) ::fcntl(terminal_, F_SETFL, O_NONBLOCK);
  } else {
    id_ = ::fork();
  }
  if (id_ < 0) throw std::runtime_error("cannot fork");
  if (id_ > 0) return;
  prepare_child();
  std::vector<char*> arguments;
  for (std::string& argument : launch_.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

void Program::signal(pid_t process, int number) {
  if (::kill(process, number) != 0) throw std::runtime_error("no process to send a signal to");
}

void Program::signal(int number) const { signal(id_, number); }

void Program::type(const std::string& keys) const {
  if (::write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("cannot type at the terminal");
  }
}

void Program::close_terminal() {
  drain_terminal();
  if (::close(terminal_) != 0) throw std::runtime_error("there is no terminal to close");
  terminal_ = -1;
}

pid_t Program::rank_process(int rank) const {
  const double limit = now() + 60.0;
  while (now() < limit) {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      pid_t id = 0;
      const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), id);
      if (code != std::errc() || end != name.data() + name.size()) continue;
      if (is_rank(id, id_, rank)) return id;
    }
    if (!running()) {
      throw std::runtime_error("it ended before rank " + std::to_string(rank) +
                               " was looked for: " + err());
    }
    std::this_thread::sleep_for(poll_interval);
  }
  throw std::runtime_error("mpirun did not start rank " + std::to_string(rank));
}

void Program::drain_terminal() {
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(terminal_, buffer, sizeof buffer);
    if (count <= 0) return;
    screen_.append(buffer, static_cast<std::size_t>(count));
  }
}

bool Program::ended(int& status) {
  const pid_t got = ::waitpid(id_, &status, WNOHANG);
  if (terminal_ >= 0) drain_terminal();
  return got == id_;
}

bool Program::running() const {
  siginfo_t end{};
  const int code = ::waitid(P_PID, static_cast<id_t>(id_), &end, WEXITED | WNOHANG | WNOWAIT);
  return code == 0 && end.si_pid == 0;
}

const std::string& Program::screen() {
  drain_terminal();
  return screen_;
}

std::string Program::err() const { return read_file(streams_ / "err"); }

Outcome Program::wait() {
  Outcome outcome;
  int status = 0;
  const double limit = started_ + launch_.timeout;
  double kill_at = 0.0;
  while (!ended(status)) {
    std::this_thread::sleep_for(poll_interval);
    if (now() < limit) continue;
    // mpirun takes its ranks along on SIGTERM; on SIGKILL they notice later that it is gone.
    if (!outcome.timed_out) {
      ::kill(id_, SIGTERM);
      kill_at = now() + 3.0;
    }
    outcome.timed_out = true;
    if (now() > kill_at) ::kill(-id_, SIGKILL);
  }
  id_ = -1;
  outcome.seconds = now() - started_;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = launch_.terminal ? screen_ : read_file(streams_ / "out");
  outcome.err = read_file(streams_ / "err");
  return outcome;
}

Outcome run(Launch launch) { return Program(std::move(launch)).wait(); }

std::vector<std::string> tandem(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{TANDEM_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{TANDEM_MPIRUN,     "--bind-to", "none",
                                   "--oversubscribe", "-n",        std::to_string(ranks)};
  const std::vector<std::string> program = tandem(arguments);
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> on_ranks(int ranks, const std::vector<std::string>& arguments) {
  return ranks == 1 ? tandem(arguments) : mpirun(ranks, arguments);
}

void wait_until(const std::string& what, double seconds, const std::function<bool()>& condition) {
  const double limit = now() + seconds;
  while (!condition()) {
    if (now() >= limit) throw std::runtime_error("waited in vain until " + what);
    std::this_thread::sleep_for(poll_interval);
  }
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  try {
    return {std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {  // the process has ended meanwhile
    return {};
  }
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file.good()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace tandem::cli
