#include "launch/core_share.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

/// Cores of two hyper-threads: {0, 4}, {1, 5}, ...
std::vector<CpuSet> cores(int count) {
  std::vector<CpuSet> all;
  for (int core = 0; core < count; ++core) all.push_back({core, core + count});
  return all;
}

TEST(CpuList, IsReadAndWritten) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (CpuSet{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list(""), CpuSet());
  EXPECT_EQ(parse_cpu_list("0-x"), CpuSet());
  EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(cpu_list_text({}), "");
}

TEST(CpusNear, AreReadFromTheDevicesFolder) {
  const TemporaryFolder root;
  const std::filesystem::path folder = root / "sys/bus/pci/devices/0000:3b:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "local_cpulist") << "16-17,48-49\n";
  EXPECT_EQ(cpus_near("0000:3b:00.0", root.path()), (CpuSet{16, 17, 48, 49}));
  EXPECT_EQ(cpus_near("0000:5e:00.0", root.path()), CpuSet());
  EXPECT_EQ(cpus_near("", root.path()), CpuSet());
}

TEST(UsableCores, AreThereAndShareNothing) {
  CpuSet all;
  std::size_t count = 0;
  for (const CpuSet& core : usable_cores()) {
    EXPECT_FALSE(core.empty());
    all.insert(core.begin(), core.end());
    count += core.size();
  }
  EXPECT_GT(count, 0U);
  EXPECT_EQ(all.size(), count);
}

TEST(ShareCores, DealsWholeCoresInContiguousBlocks) {
  EXPECT_EQ(share_cores(cores(4), {{}, {}}), (std::vector<CpuSet>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  // Three of four cores' worth each: nobody goes without, nothing is dealt twice.
  EXPECT_EQ(share_cores(cores(4), {{}, {}, {}}),
            (std::vector<CpuSet>{{0, 4}, {1, 5}, {2, 3, 6, 7}}));
}

TEST(ShareCores, KeepsProcessesNearTheirDevices) {
  const CpuSet left{0, 1, 4, 5};
  const CpuSet right{2, 3, 6, 7};
  EXPECT_EQ(share_cores(cores(4), {right, right, left, left}),
            (std::vector<CpuSet>{{2, 6}, {3, 7}, {0, 4}, {1, 5}}));
}

TEST(ShareCores, GivesAllOfThemWhereTheyAreTooFew) {
  const CpuSet all{0, 1, 2, 3};
  EXPECT_EQ(share_cores(cores(2), {{}, {}, {}}), (std::vector<CpuSet>{all, all, all}));
}

TEST(ShareCores, GivesOthersWhereNoneIsNear) {
  EXPECT_EQ(share_cores(cores(2), {{17, 18}}), (std::vector<CpuSet>{{0, 1, 2, 3}}));
}

}  // namespace
}  // namespace tandem
