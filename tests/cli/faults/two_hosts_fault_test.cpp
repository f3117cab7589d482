#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "cli/faults/fault_check.h"
#include "cli/run_folder.h"

// Faults that meet a job of `tandem launch` on two hosts, here network namespaces, with two ranks
// each that share a made-up GPU (tests/launch): each ends the whole job soon, says so in one line,
// and leaves nothing behind on either host.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr int ranks = 4;  // 0 and 1 on the first host, 2 and 3 on the second
constexpr int checkpoint_every = 20;

/// What the process is called on its hosts, which have process ids of their own.
std::string id_on_hosts(pid_t process) {
  constexpr std::string_view key = "\nNSpid:";
  const std::string status = read_file(fmt::format("/proc/{}/status", process));
  const std::size_t at = status.find(key);
  if (at == std::string::npos) throw std::runtime_error("the rank is gone");
  std::istringstream ids(status.substr(at + key.size(), status.find('\n', at + 1) - at));
  std::string id;
  for (std::string next; ids >> next && next.find_first_not_of("0123456789") == next.npos;) {
    id = next;
  }
  return id;
}

class TwoHostsFault : public RunTest {
 protected:
  TwoHostsFault() {
    for (const char* name : {"out", "out.second_host", "run"}) fs::create_directories(path(name));
    fs::permissions(path("run"), fs::perms::owner_all);
  }

  /// A job without end on both hosts, with its first checkpoint there. The hosts outlive it, so
  /// that one can see what it leaves there.
  void start(const std::string& timeout_seconds) {
    std::vector<std::string> command{TANDEM_TWO_HOSTS_SCRIPT,
                                     "--launcher",
                                     "sh",
                                     "-c",
                                     "ON_TWO_HOSTS=$PWD \"$@\"; echo $? > code; sleep 600",
                                     "sh"};
    const std::vector<std::string> launcher = tandem({"launch", "--hosts", "10.213.0.1,10.213.0.2",
                                                      "--gpus", "1", "--ranks-per-gpu", "2", "--"});
    command.insert(command.end(), launcher.begin(), launcher.end());
    const std::vector<std::string> training = train_command(
        "out", endless({"train.device=cpu", "parallel.timeout_seconds=" + timeout_seconds,
                        fmt::format("checkpoint.every_steps={}", checkpoint_every)}));
    command.insert(command.end(), training.begin() + 1, training.end());
    job_ = std::make_unique<Program>(Launch{
        .command = command,
        .folder = root(),
        .environment = {{"TANDEM_TWO_HOSTS_FROM", path("out.second_host").string()},
                        {"TANDEM_TWO_HOSTS_OVER", path("out").string()},
                        {"PATH", TANDEM_FAKE_MPS_FOLDER ":" + std::string(std::getenv("PATH"))},
                        {"LD_LIBRARY_PATH", TANDEM_FAKE_NVML_FOLDER},
                        {"FAKE_GPUS", "GPU-a"},
                        {"FAKE_MPS_JOURNAL", path("journal").string()},
                        {"XDG_RUNTIME_DIR", path("run").string()}}});
    wait_until("the first checkpoint is there", 40.0,
               [&] { return has_ended() || !checkpoint_steps(path("out")).empty(); });
    if (has_ended()) throw std::runtime_error("the job ended: " + job_->err());
    for (int rank = 0; rank < ranks; ++rank) {
      processes_.push_back(job_->rank_process(rank));
      shared_memory_.push_back(fmt::format("tandem-{}-", id_on_hosts(processes_.back())));
    }
    for (const pid_t process : processes_) add_shared_files(process, shared_files_);
    ASSERT_FALSE(shared_files_.empty());
    ASSERT_EQ(files_left(shared_on_hosts()), shared_on_hosts());
  }

  pid_t process(std::size_t rank) const { return processes_.at(rank); }

  /// Takes the second host's network away.
  void disconnect() const {
    const Outcome outcome =
        run({.command = {TANDEM_TWO_HOSTS_SCRIPT, "--disconnect", std::to_string(process(3))},
             .folder = root()});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  /// The job's end, which must come soon after now; `limit`: as of end_after_fault() elsewhere.
  Outcome end_after_fault(double limit = 30.0) const {
    const auto begin = std::chrono::steady_clock::now();
    wait_until("the job has ended", limit, [&] { return has_ended(); });
    std::printf("the job ended %.1f s after the fault\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    Outcome outcome;
    outcome.code = std::stoi(read_file(path("code")));
    outcome.err = job_->err();
    return outcome;
  }

  /// Of an only_error() that begins with the step.
  static void expect_step(const std::string& line, const std::string& begin) {
    ASSERT_TRUE(line.starts_with(begin)) << line;
    EXPECT_GE(std::stoi(line.substr(begin.size())), checkpoint_every) << line;
  }

  /// No process of the job is left on either host, and no daemon, folder or shared memory.
  void expect_nothing_left() const {
    // Ranks that are cut off find that out for themselves.
    wait_until("no process is left", 30.0, [&] { return !has_processes(); });
    wait_until("no shared memory is left", 10.0, [&] { return !has_shared_memory(); });
    const std::string journal = read_file(path("journal"));
    EXPECT_EQ(occurrences(journal, "start "), 2U) << journal;
    EXPECT_EQ(occurrences(journal, "end "), 2U) << journal;
    EXPECT_TRUE(fs::is_empty(path("run")));
  }

 private:
  bool has_ended() const { return read_file(path("code")).find('\n') != std::string::npos; }

  /// Ranks, what watches and starts them, and daemons. Of Open MPI there is more on a host that is
  /// cut off, which knows nothing of the job's end.
  bool has_processes() const {
    const std::string variable = '\0' + ("ON_TWO_HOSTS=" + root().string()) + '\0';
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (read_file(entry.path() / "cmdline").find("orted") != std::string::npos) continue;
      const std::string environment = '\0' + read_file(entry.path() / "environ");
      if (environment.find(variable) != std::string::npos) return true;
    }
    return false;
  }

  /// The hosts have a /dev/shm of their own.
  fs::path on_hosts(const fs::path& path) const {
    return fs::path("/proc") / std::to_string(job_->id()) / "root" / path.relative_path();
  }

  std::set<fs::path> shared_on_hosts() const {
    std::set<fs::path> files;
    for (const fs::path& file : shared_files_) files.insert(on_hosts(file));
    return files;
  }

  bool has_shared_memory() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(on_hosts("/dev/shm"))) {
      const std::string name = entry.path().filename().string();
      for (const std::string& begin : shared_memory_) {
        if (name.starts_with(begin)) return true;
      }
    }
    return !files_left(shared_on_hosts()).empty();
  }

  std::unique_ptr<Program> job_;
  std::vector<pid_t> processes_;
  std::vector<std::string> shared_memory_;  // how names of the ranks' own begin
  std::set<fs::path> shared_files_;         // the MPI library's
};

TEST_F(TwoHostsFault, KilledRankOnTheSecondHostIsNamed) {
  start("20");
  Program::signal(process(3), SIGKILL);
  const Outcome outcome = end_after_fault();
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  expect_step(line, "error: rank 3 on node-b, GPU-a, step ");
  EXPECT_NE(line.find(" was ended by signal 9 (Killed)"), std::string::npos) << line;
  expect_nothing_left();
}

TEST_F(TwoHostsFault, StoppedRankOnTheSecondHostIsNamed) {
  start("5");
  Program::signal(process(3), SIGSTOP);
  const Outcome outcome = end_after_fault();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  expect_step(line, "error: step ");
  EXPECT_NE(line.find(" for rank 3, which gives no sign of life (rank 3 on node-b); "),
            std::string::npos)
      << line;
  expect_nothing_left();
}

// mpirun itself waits for such a host for ever.
TEST_F(TwoHostsFault, HostThatIsCutOffIsNamed) {
  start("5");
  disconnect();
  const Outcome outcome = end_after_fault();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  expect_step(line, "error: step ");
  EXPECT_NE(line.find(" for ranks 2 and 3, which give no sign of life (rank 2 on node-b; rank 3 on "
                      "node-b); "),
            std::string::npos)
      << line;
  EXPECT_EQ(occurrences(outcome.err, "warning: mpirun has not ended the job"), 1U) << outcome.err;
  expect_nothing_left();
}

// By default too, with all that comes behind the time-out.
TEST_F(TwoHostsFault, HostThatIsCutOffIsNamedInTimeByDefault) {
  start("20");
  disconnect();
  const Outcome outcome = end_after_fault(60.0);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(only_error(outcome).find(" for ranks 2 and 3, which give no sign of life "),
            std::string::npos)
      << outcome.err;
  expect_nothing_left();
}

}  // namespace
}  // namespace tandem::cli
