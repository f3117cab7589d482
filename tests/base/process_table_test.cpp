#include "base/process_table.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

/// A child that waits for its end.
class Child {
 public:
  Child() : id_(::fork()) {
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  /// Returns once the child has met the signal.
  void signal(int number, int options) const {
    ASSERT_EQ(::kill(id_, number), 0);
    ASSERT_EQ(::waitpid(id_, nullptr, options), id_);
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    signal(SIGKILL, 0);
  }

 private:
  pid_t id_;
  bool ended_ = false;
};

TEST(ProcessTable, FindsChildrenOfThisProgram) {
  Child child;
  const std::vector<pid_t> found = own_processes_below(::getpid());
  EXPECT_EQ(found, std::vector<pid_t>{child.id()});
  const std::vector<pid_t> all = all_processes();
  EXPECT_EQ(std::ranges::count(all, child.id()), 1);
  EXPECT_EQ(std::ranges::count(all, ::getpid()), 1);
  child.end();
  EXPECT_TRUE(own_processes_below(::getpid()).empty());
}

/// Becomes a copy of this program that runs the test again, in the part that the variable names.
[[noreturn]] void become(const std::string& copy, const char* part) {
  ::setenv("TANDEM_PART", part, 1);
  ::execl(copy.c_str(), copy.c_str(), "--gtest_filter=*FindsThoseOfAProgramThatIsReplaced",
          "--gtest_brief=1", nullptr);
  ::_exit(1);
}

/// In a copy of this program: a child of it is found as it was, and one as it is now.
void expect_to_find_both() {
  const std::string copy = std::filesystem::read_symlink("/proc/self/exe");
  const Child older;
  std::filesystem::copy(copy, copy + ".new");
  std::filesystem::rename(copy + ".new", copy);
  const pid_t newer = ::fork();
  if (newer == 0) become(copy, "waits");
  for (int tries = 0; tries < 10'000 && own_processes_below(newer).empty(); ++tries) ::usleep(1000);
  const std::vector<pid_t> found = own_processes_below(::getpid());
  EXPECT_EQ(std::ranges::count(found, older.id()), 1);
  EXPECT_EQ(std::ranges::count(found, newer), 1);
  ::kill(newer, SIGKILL);
  ::waitpid(newer, nullptr, 0);
}

// As where a program is installed anew while its processes run, which start more of them.
TEST(ProcessTable, FindsThoseOfAProgramThatIsReplaced) {
  const char* const given = std::getenv("TANDEM_PART");
  const std::string part = given == nullptr ? "" : given;
  if (part == "looks") {
    expect_to_find_both();
    return;
  }
  if (part == "waits") {
    const Child child;
    ::usleep(60'000'000);
    return;
  }
  const TemporaryFolder folder;
  const std::string copy = folder / "program";
  std::filesystem::copy("/proc/self/exe", copy);
  std::filesystem::create_hard_link(copy, folder / "first");
  const pid_t other = ::fork();
  if (other == 0) become(copy, "looks");
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::equivalent(copy, folder / "first")) << "it was not replaced";
}

TEST(ProcessTable, TellsWhoIsStopped) {
  Child child;
  EXPECT_FALSE(is_stopped(child.id()));
  child.signal(SIGSTOP, WUNTRACED);
  EXPECT_TRUE(is_stopped(child.id()));
  child.signal(SIGCONT, WCONTINUED);
  EXPECT_FALSE(is_stopped(child.id()));
  EXPECT_FALSE(has_stopped_ancestor());
}

TEST(ProcessTable, TellsWhoHasExitedBeforeItsParentNotices) {
  const pid_t child = ::fork();
  if (child == 0) ::pause();
  EXPECT_FALSE(has_exited(child));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_exited(child));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(has_exited(child));
}

TEST(ProcessTable, ReadsTheEnvironmentThatAProcessBeganWith) {
  const std::vector<std::string> words = environment_of(::getpid());
  EXPECT_TRUE(
      std::ranges::any_of(words, [](const auto& word) { return word.starts_with("PATH="); }));
  ASSERT_EQ(::setenv("TANDEM_LATER", "1", 1), 0);
  EXPECT_EQ(environment_of(::getpid()), words);
}

TEST(ProcessTable, KnowsThreadsByName) {
  EXPECT_FALSE(has_thread(::getpid(), "tandem-named"));
  std::jthread named([](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "tandem-named");
    while (!stop.stop_requested()) ::usleep(1000);
  });
  for (int tries = 0; tries < 10'000 && !has_thread(::getpid(), "tandem-named"); ++tries) {
    ::usleep(1000);
  }
  EXPECT_TRUE(has_thread(::getpid(), "tandem-named"));
  named.request_stop();
  named.join();
  // It is joined a moment before it leaves /proc.
  for (int tries = 0; tries < 10'000 && has_thread(::getpid(), "tandem-named"); ++tries) {
    ::usleep(1000);
  }
  EXPECT_FALSE(has_thread(::getpid(), "tandem-named"));
}

TEST(ProcessTable, SaysNothingOfOneThatIsGone) {
  Child child;
  EXPECT_TRUE(is_on_this_host(child.id()));
  child.end();
  EXPECT_FALSE(is_on_this_host(child.id()));
  EXPECT_FALSE(is_stopped(child.id()));
  EXPECT_FALSE(has_thread(child.id(), "tandem-named"));
  EXPECT_TRUE(environment_of(child.id()).empty());
}

}  // namespace
}  // namespace tandem
