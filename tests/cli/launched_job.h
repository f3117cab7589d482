#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/launch_device.h"
#include "cli/run_folder.h"

namespace tandem::cli {

using Words = std::vector<std::string>;

/// A test that starts jobs with `tandem launch` on the program's LaunchDevice. Folders of their MPS
/// daemons go to path("run").
class LaunchedJob : public RunTest {
 protected:
  LaunchedJob();

  const LaunchDevice& device() const { return device_; }

  /// tandem launch with options, of a training run into path(out).
  Launch launch(const Words& options, const Words& training = {},
                const std::string& out = "out") const;
  /// `tandem` with these words, where it finds the device.
  Launch with_driver(const Words& words) const;
  static Launch with(Launch launch, const std::string& name, const std::string& value);
  /// Where a shell script stands in front of other programs of that name.
  Launch with_script(Launch launch, const std::string& name, const std::string& script) const;

  /// Arguments of an endless run with checkpoints.
  Words endless_job(const Words& training = {}) const;
  /// An endless_job(), started, with its first checkpoint there.
  std::unique_ptr<Program> started(const Words& options, const Words& training = {});
  std::unique_ptr<Program> started(Launch launch);

  /// Waits until no process of this test's jobs is left, nor any folder of theirs, nor any file in
  /// /dev/shm of those that were started().
  void expect_nothing_left() const;
  /// The process of this test's jobs whose command line has the word before their folder.
  pid_t process_named(const std::string& word) const;

 private:
  std::vector<pid_t> processes_of_jobs() const;

  LaunchDevice device_;
  std::set<std::filesystem::path> shared_files_;  // of the jobs that were started()
};

/// A variable of a running process; "not set" where it has none of that name.
std::string environment_of(pid_t process, const std::string& name);

}  // namespace tandem::cli
