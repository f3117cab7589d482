#include "device/machine.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

struct Row {
  int cores, bound, colocated, threads;
};

TEST(DefaultThreads, FollowCoresAndNeighbours) {
  for (const Row& row :
       {Row{2, 2, 1, 2}, Row{2, 2, 2, 1}, Row{2, 2, 3, 1}, Row{1, 1, 1, 1}, Row{1, 1, 4, 1},
        Row{64, 64, 4, 16}, Row{64, 64, 3, 21},
        // Bound by the launcher: no more than the process may run on.
        Row{64, 8, 1, 8}, Row{64, 8, 8, 8}, Row{64, 1, 2, 1}, Row{64, 32, 4, 16}}) {
    Machine machine;
    machine.cores = row.cores;
    machine.bound_cores = row.bound;
    EXPECT_EQ(default_threads(machine, row.colocated), row.threads)
        << row.cores << " cores, bound to " << row.bound << ", " << row.colocated << " processes";
  }
  EXPECT_THROW(default_threads(Machine{}, 0), Error);
}

TEST(DefaultThreads, ShareTheQuotaOfAControlGroup) {
  struct Quota {
    int cores, quota, colocated, threads;
  };
  for (const auto& [cores, quota, colocated, threads] :
       {Quota{64, 2, 1, 2}, Quota{64, 2, 2, 1}, Quota{64, 2, 4, 1}, Quota{64, 6, 2, 3},
        Quota{4, 16, 1, 4}, Quota{4, 0, 1, 4}}) {
    Machine machine;
    machine.cores = machine.bound_cores = cores;
    machine.quota_cores = quota;
    EXPECT_EQ(default_threads(machine, colocated), threads)
        << cores << " cores, " << quota << " allowed, " << colocated << " processes";
  }
}

TEST(Machine, IsReadConsistently) {
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.hostname.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.bound_cores, 1);
  EXPECT_LE(machine.bound_cores, machine.cores);
  EXPECT_GE(machine.quota_cores, 0);
  EXPECT_GE(machine.numa_nodes, 1);
  EXPECT_GT(machine.memory_bytes, std::uint64_t{1} << 20U);
}

}  // namespace
}  // namespace tandem
