#include "base/subprocess.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/error.h"

namespace tandem {
namespace {

double seconds_of(const ProgramCall& call, ProgramEnd& end) {
  const auto begin = std::chrono::steady_clock::now();
  end = run_program(call);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(RunProgram, GivesInputAndTakesOutputAndCode) {
  const ProgramEnd end = run_program(
      {.command = {"sh", "-c", "read word; echo \"$word $NAME\"; echo wrong >&2; exit 3"},
       .input = "hello\n",
       .environment = {{"NAME", "world"}}});
  EXPECT_EQ(end.output, "hello world\nwrong\n");
  EXPECT_EQ(end.code, 3);
  EXPECT_FALSE(end.timed_out);
}

TEST(RunProgram, NeedsNoReaderOfItsInput) {
  EXPECT_EQ(run_program({.command = {"true"}, .input = std::string(4096, 'x')}).code, 0);
}

TEST(RunProgram, TakesMoreThanAPipeHolds) {
  const ProgramEnd end = run_program({.command = {"sh", "-c", "yes | head -c 200000"}});
  EXPECT_EQ(end.output.size(), 200000U);
}

TEST(RunProgram, TellsTheSignalThatEndedIt) {
  EXPECT_EQ(run_program({.command = {"sh", "-c", "kill -TERM $$"}}).code, 128 + SIGTERM);
}

TEST(RunProgram, EndsWithItsGroupAfterTheTimeOut) {
  ProgramEnd end;
  EXPECT_LT(
      seconds_of({.command = {"sh", "-c", "sleep 60 & sleep 60"}, .timeout_seconds = 0.2}, end),
      20.0);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.code, 128 + SIGKILL);
}

TEST(RunProgram, DoesNotWaitForADaemonThatKeepsItsOutput) {
  ProgramEnd end;
  EXPECT_LT(seconds_of({.command = {"sh", "-c", "echo up; setsid sleep 30 &"}}, end), 20.0);
  EXPECT_EQ(end.output, "up\n");
  EXPECT_FALSE(end.timed_out);
}

TEST(RunProgram, IsNotDeafToWhatThisProcessIgnores) {
  const auto before = std::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(run_program({.command = {"sh", "-c", "kill -TERM $$; exit 5"}}).code, 128 + SIGTERM);
  std::signal(SIGTERM, before);
}

TEST(RunProgram, SaysThatThereIsNone) {
  try {
    run_program({.command = {"no-such-program-anywhere"}});
    ADD_FAILURE() << "no error";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(),
                 "no-such-program-anywhere cannot be started: No such file or directory");
  }
}

TEST(ProgramOnPath, IsFoundOrNot) {
  EXPECT_TRUE(program_on_path("sh").ends_with("/sh"));
  EXPECT_EQ(program_on_path("no-such-program-anywhere"), "");
}

}  // namespace
}  // namespace tandem
