#include "device/cpu_quota.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> quota() const { return cpu_quota(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(CpuQuota, IsAbsentWhereNothingLimits) {
  EXPECT_EQ(quota(), std::nullopt);  // no proc
  write("proc/self/cgroup", "0::/user.slice/session\n");
  EXPECT_EQ(quota(), std::nullopt);  // no cgroup file system
  write("sys/fs/cgroup/user.slice/session/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  for (const char* odd : {"", "many", "-5 100000", "5 0", "nan 1", "100000"}) {
    write("sys/fs/cgroup/user.slice/cpu.max", odd);
    EXPECT_EQ(quota(), std::nullopt) << odd;
  }
}

TEST_F(CpuQuota, IsTheLeastOfTheGroupAndThoseAbove) {
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("sys/fs/cgroup/job/step/task/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/job/step/cpu.max", "600000 100000\n");
  EXPECT_EQ(quota(), 6.0);
  write("sys/fs/cgroup/job/cpu.max", "75000 50000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/job/step/task/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

// Docker without a cgroup name space of its own mounts the container's group as the topmost.
TEST_F(CpuQuota, IsFoundAtTheTopOfAContainer) {
  for (const char* group : {"/", "/docker/0123abc", "/../../else"}) {
    write("proc/self/cgroup", std::string("0::") + group + "\n");
    write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    EXPECT_EQ(quota(), 2.0) << group;
  }
}

TEST_F(CpuQuota, IsReadFromVersionOneToo) {
  write("proc/self/cgroup",
        "7:cpuset:/box\n4:cpu,cpuacct:/box/inner\n1:name=systemd:/box\n0::/box\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
}

}  // namespace
}  // namespace tandem
