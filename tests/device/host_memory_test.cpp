#include "device/host_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class HostMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<std::size_t> available() const { return available_host_memory(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available(), std::nullopt);  // no proc
  write("proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    3000000 kB\n");
  EXPECT_EQ(available(), 3'000'000U * 1024);
  write("proc/meminfo", "MemAvailable:    3000000 kB\nSwapTotal: 500 kB\nSwapFree: 200 kB\n");
  EXPECT_EQ(available(), 3'000'200U * 1024);
  EXPECT_GT(available_host_memory().value_or(0), std::size_t{1} << 20U) << "of this host";
}

TEST_F(HostMemory, IsNoMoreThanAGroupOrOneAboveItLeaves) {
  write("proc/meminfo", "MemAvailable:    3000000 kB\n");
  write("proc/self/cgroup", "0::/job/task\n");
  write("sys/fs/cgroup/job/task/memory.max", "max\n");
  write("sys/fs/cgroup/job/task/memory.current", "500\n");
  EXPECT_EQ(available(), 3'000'000U * 1024);
  write("sys/fs/cgroup/job/memory.max", "9000\n");
  write("sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(available(), 4000U);
  write("sys/fs/cgroup/job/memory.stat",
        "anon 1000\ninactive_file 2500\nactive_file 100\n"
        "slab_reclaimable 400\nslab_unreclaimable 50\n");
  EXPECT_EQ(available(), 7000U) << "what files take can be given away";
  write("sys/fs/cgroup/job/task/memory.max", "300\n");
  EXPECT_EQ(available(), 0U);
  write("sys/fs/cgroup/job/task/memory.max", "600\n");
  EXPECT_EQ(available(), 100U);
}

TEST_F(HostMemory, IsLimitedByVersionOneToo) {
  write("proc/meminfo", "MemAvailable:    3000000 kB\n");
  write("proc/self/cgroup", "9:cpu,cpuacct:/box\n4:memory:/box\n0::/box\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(available(), 3'000'000U * 1024);
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8000\n");
  EXPECT_EQ(available(), 3000U);
  write("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
  EXPECT_EQ(available(), 4000U);
}

}  // namespace
}  // namespace tandem
