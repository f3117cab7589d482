#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/faults/launch_fault.h"

namespace tandem::cli {

/// A test of faults of a rank's own device, ordered by the test and met by a library that is
/// preloaded into the ranks (rank_fault.cpp).
class FaultyDevice : public LaunchFault {
 protected:
  /// A job of ranks that share a GPU, with its first checkpoint there, whose ranks follow order().
  std::unique_ptr<Program> started_faulty(const Words& options, const Words& training);

  /// Another command than training, which takes longer than any test, where ranks share a GPU and
  /// follow order(); once it computes.
  std::unique_ptr<Program> started_faulty_command(const Words& command,
                                                  const Words& assignments) const;
  /// A benchmark that nobody ends, in the middle of its steps, whose ranks follow order().
  std::unique_ptr<Program> started_faulty_bench(const Words& assignments) const;

  /// Settings of a job whose last step, not its first, comes before an evaluation that lasts longer
  /// than any test.
  static Words settings_of_a_long_end(int steps, const Words& more);
  /// Such a job, whose rank's device hangs behind the last step's work, once it does. Not rank 0,
  /// which may have as many launches of one graph where it chooses kernels.
  std::unique_ptr<Program> started_and_hung_behind(const Launch& job, int rank, int steps);

  /// The command with the library in its ranks. The MPS daemon and its servers are left as they
  /// are.
  Launch faulty(Launch command) const;

  /// What the ranks are to do, by a word of rank_fault.cpp's; once they begin, some hundred steps
  /// from now.
  void order(const std::vector<int>& ranks, const std::string& what) const;

 private:
  void give_orders(const std::vector<int>& ranks, const std::string& what) const;
};

}  // namespace tandem::cli
