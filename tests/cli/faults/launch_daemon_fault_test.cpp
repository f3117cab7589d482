#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"
#include "support/process.h"

// MPS daemons that do not start, are the user's own or are another's: over made-up GPUs
// (test_cli_launch_faults) and over a real one (test_cli_launch_faults_gpu).

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// Not a driver's message: a daemon that ends at once.
TEST_F(LaunchFault, DaemonThatDoesNotStartIsToldOnce) {
  const Outcome outcome = run(with_script(launch(shared_gpu()), "nvidia-cuda-mps-control",
                                          "#!/bin/sh\necho no such luck\nexit 3\n"));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(only_error(outcome).find("the MPS daemon does not start (nvidia-cuda-mps-control ended "
                                     "with 3): no such luck"),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("out")));
  expect_nothing_left();
}

// A file stands in the place of the daemon's pipe directory, in which not even root can write.
TEST_F(LaunchFault, DaemonWithoutAPlaceForItsPipesIsToldOnce) {
  const Outcome outcome =
      run(with_script(launch(shared_gpu()), "nvidia-cuda-mps-control", R"(#!/bin/bash
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
: > "$CUDA_MPS_PIPE_DIRECTORY"
PATH=${PATH//"${0%/*}":/}
exec nvidia-cuda-mps-control "$@"
)"));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(only_error(outcome).find("the MPS daemon does not start"), std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("out")));
  expect_nothing_left();
}

TEST_F(LaunchFault, RunningDaemonIsUsedOnRequestAndLeftAlone) {
  const fs::path pipes = path("mine");
  const auto on_daemon = [&](const Words& command) { return run(for_daemon(pipes, command)).code; };
  const Launch reusing = with(launch(shared_gpu({"--reuse-mps"}), set({"train.max_steps=3"})),
                              "CUDA_MPS_PIPE_DIRECTORY", pipes.string());
  const Outcome none = run(reusing);
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_NE(none.err.find("--reuse-mps: no MPS daemon answers in '" + pipes.string() + "'"),
            std::string::npos)
      << none.err;
  fs::create_directories(pipes);
  ASSERT_EQ(on_daemon({"nvidia-cuda-mps-control", "-d"}), 0);
  write_file(pipes / "busy",
             "2");  // so that neither launcher nor first rank gets an answer at once
  const Outcome outcome = run(reusing);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(on_daemon({"sh", "-c", "echo get_server_list | nvidia-cuda-mps-control"}), 0);
  EXPECT_EQ(on_daemon({"sh", "-c", "echo quit | nvidia-cuda-mps-control"}), 0);
  expect_nothing_left();
}

// It answers, but its folder is another user's: root's, where the test is not root itself.
TEST_F(LaunchFault, AnothersDaemonIsRefused) {
  fs::path pipes = "/";
  if (::geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    pipes = path("others");
    fs::create_directories(pipes);
    ASSERT_EQ(::chown(pipes.c_str(), nobody, nobody), 0);
  }
  const Launch reusing = with(launch(shared_gpu({"--reuse-mps"}), set({"train.max_steps=1"})),
                              "CUDA_MPS_PIPE_DIRECTORY", pipes.string());
  const Outcome outcome = run(with_script(reusing, "nvidia-cuda-mps-control", "#!/bin/sh\n"));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(only_error(outcome).find(
                fmt::format("--reuse-mps: the MPS daemon in '{}' is another user's; leave "
                            "--reuse-mps out",
                            pipes.string())),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("out")));
  expect_nothing_left();
}

}  // namespace
}  // namespace tandem::cli
