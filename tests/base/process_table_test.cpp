#include "base/process_table.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace tandem {
namespace {

/// A child that waits for its end.
class Child {
 public:
  Child() : id_(::fork()) {
    if (id_ == 0) {
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
