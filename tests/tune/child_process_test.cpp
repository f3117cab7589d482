#include "tune/child_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "support/scoped_variable.h"
#include "tune/script.h"

namespace tandem {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class ChildProcess : public testing::Test {
 protected:
  ChildEnd run(const std::string& script, double timeout, std::function<bool()> stop = {}) {
    return run_child({.command = {write_script(folder_, script), "first", "second word"},
                      .output = folder_ / "output",
                      .timeout_seconds = timeout,
                      .environment = environment_,
                      .stop = std::move(stop)});
  }
  std::string output() const { return content(folder_ / "output"); }

  EnvironmentChanges environment_{};

 private:
  TemporaryFolder folder_;
};

TEST_F(ChildProcess, GivesCodeAndOutput) {
  const ChildEnd end = run("echo \"$2\"; echo wrong >&2; exit 7", 20.0);
  EXPECT_EQ(end.code, 7);
  EXPECT_FALSE(end.timed_out || end.stopped);
  EXPECT_EQ(output(), "second word\nwrong\n");
  EXPECT_EQ(run("kill -KILL $$", 20.0).code, 128 + SIGKILL);
}

TEST_F(ChildProcess, HasAGroupOfItsOwnAndNoInput) {
  run("cat; ps -o pgid= -p $$ | tr -d ' '; echo $$", 20.0);
  std::istringstream words(output());
  int group = 0;
  int process = 0;
  words >> group >> process;
  EXPECT_EQ(group, process) << output();
  EXPECT_GT(group, 0);
}

TEST_F(ChildProcess, HasTheEnvironmentThatItIsGiven) {
  const ScopedVariable before("TANDEM_TEST_CHILD", "before");
  const ScopedVariable other("TANDEM_TEST_CHILD_2", "kept");
  const std::string script = "echo \"$TANDEM_TEST_CHILD $TANDEM_TEST_CHILD_2 ${NEW-none}\"";
  run(script, 20.0);
  EXPECT_EQ(output(), "before kept none\n");
  environment_ = {{"TANDEM_TEST_CHILD", "now"}, {"NEW", "new"}};
  run(script, 20.0);
  EXPECT_EQ(output(), "now kept new\n");
}

TEST_F(ChildProcess, IsEndedAfterTheTimeOut) {
  const ChildEnd end = run("trap 'echo asked; exit 3' TERM; while :; do sleep 0.05; done", 5.0);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(output(), "asked\n") << "it could clean up";
}

TEST_F(ChildProcess, IsEndedWhereTheUserStops) {
  int asked = 0;
  const ChildEnd end = run("exec sleep 60", 60.0, [&] { return ++asked > 3; });
  EXPECT_TRUE(end.stopped);
  EXPECT_FALSE(end.timed_out);
  EXPECT_EQ(end.code, 128 + SIGTERM);
}

TEST_F(ChildProcess, OneThatTakesNoSignalIsKilledWithItsChildren) {
  const ChildEnd end = run("trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.05; done", 60.0,
                           [&] { return output().ends_with('\n'); });
  EXPECT_EQ(end.code, 128 + SIGKILL);
  const pid_t grandchild = std::stoi(output());
  for (int i = 0; i < 3000 && !content("/proc/" + std::to_string(grandchild) + "/cmdline").empty();
       ++i) {
    ::usleep(20'000);
  }
  EXPECT_EQ(content("/proc/" + std::to_string(grandchild) + "/cmdline"), "");
}

TEST_F(ChildProcess, AMissingProgramIsACode) {
  TemporaryFolder folder;
  EXPECT_EQ(run_child({.command = {(folder / "nowhere").string()},
                       .output = folder / "output",
                       .timeout_seconds = 20.0})
                .code,
            127);
}

}  // namespace
}  // namespace tandem
