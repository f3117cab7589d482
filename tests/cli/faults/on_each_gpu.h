#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/faults/launch_fault.h"

namespace tandem::cli {

/// How a job's ranks lie on each of two GPUs, and how their gradients travel between these.
struct Layout {
  std::string exchange;
  int ranks_per_gpu;
  bool as_between_hosts = false;  ///< NCCL through sockets, where it hears of a peer that is gone
};

/// For a test's name.
inline std::string name_of(const testing::TestParamInfo<Layout>& each) {
  return fmt::format("{}_{}_on_each{}", each.param.exchange, each.param.ranks_per_gpu,
                     each.param.as_between_hosts ? "_by_sockets" : "");
}

/// For INSTANTIATE_TEST_SUITE_P.
inline auto all_layouts() {
  return testing::Values(Layout{"nccl", 1}, Layout{"direct", 1}, Layout{"nccl", 2},
                         Layout{"direct", 2}, Layout{"nccl", 1, true}, Layout{"nccl", 2, true});
}

/// Of one rank on each GPU, in every way.
inline auto single_layouts() {
  return testing::Values(Layout{"nccl", 1}, Layout{"direct", 1}, Layout{"nccl", 1, true});
}

/// A test of what a fault does to a job with a Layout's ranks. `Fault`: LaunchFault, or what is
/// derived from it.
template <typename Fault>
class OnEachGpu : public Fault, public testing::WithParamInterface<Layout> {
 protected:
  /// NCCL takes seconds to start where other jobs start beside.
  static constexpr int timeout_seconds = 10;

  void SetUp() override {
    if (this->device().computes) return;
    if (GetParam().exchange == "direct" || GetParam().as_between_hosts) {
      GTEST_SKIP() << "ranks on CPUs exchange through MPI, whatever is asked for of GPUs";
    }
  }

  /// An endless_job().
  Launch job_on_each(const Words& options = {}, const Words& assignments = settings()) const {
    Launch job = this->launch(each_gpu(options), this->endless_job(assignments));
    if (!options.empty()) job.timeout += this->device().start_seconds;  // once more
    if (GetParam().as_between_hosts) {
      for (const auto& [name, value] :
           std::vector<std::pair<std::string, std::string>>{{"NCCL_P2P_DISABLE", "1"},
                                                            {"NCCL_SHM_DISABLE", "1"},
                                                            {"NCCL_NET", "Socket"},
                                                            {"NCCL_SOCKET_IFNAME", "lo"}}) {
        job = Fault::with(std::move(job), name, value);
      }
    }
    return job;
  }

  static Words each_gpu(Words more = {}) {
    more.insert(more.end(),
                {"--gpus", "2", "--ranks-per-gpu", std::to_string(GetParam().ranks_per_gpu)});
    return more;
  }

  static Words settings() {
    return set({exchange(), fmt::format("parallel.timeout_seconds={}", timeout_seconds)});
  }
  static std::string exchange() {
    return fmt::format("parallel.exchange=\"{}\"", GetParam().exchange);
  }

  static int ranks() { return 2 * GetParam().ranks_per_gpu; }
  static int last() { return ranks() - 1; }
  static std::vector<pid_t> all_of(const Program& job) { return Fault::processes_of(job, ranks()); }

  /// "rank 1 on HOST, UUID", of the last one.
  std::string last_rank() const { return this->place_of(last(), this->device().next_gpu); }
};

}  // namespace tandem::cli
