#include "launch/core_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

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

// The system says nothing of the device's place, or the job may not use the cores there.
TEST(ShareCores, GivesDevicesWithoutCoresNearbyWhatTheOthersLeave) {
  const CpuSet left{0, 1, 4, 5};
  const CpuSet right{2, 3, 6, 7};
  EXPECT_EQ(share_cores(cores(4), {left, {}}), (std::vector<CpuSet>{left, right}));
  EXPECT_EQ(share_cores(cores(4), {{17}, left}), (std::vector<CpuSet>{right, left}));
  EXPECT_EQ(share_cores(cores(4), {left, {}, {17}}), (std::vector<CpuSet>{left, {2, 6}, {3, 7}}));
  // Of two sockets the job has the cores of the first alone, so that nothing is left.
  const CpuSet first{0, 1, 2, 3};
  EXPECT_EQ(share_cores(cores(2), {first, {17, 18}}), (std::vector<CpuSet>{{0, 2}, {1, 3}}));
  EXPECT_EQ(share_cores(cores(2), {{17, 18}, first}), (std::vector<CpuSet>{{1, 3}, {0, 2}}));
  // Nor enough.
  EXPECT_EQ(share_cores(cores(3), {{0, 3, 1, 4}, {}, {}}),
            (std::vector<CpuSet>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(ShareCores, DealsToDevicesThatAllHaveNoneNearbyAsOne) {
  EXPECT_EQ(share_cores(cores(4), {{17}, {}}), (std::vector<CpuSet>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(share_cores(cores(2), {{17}, {18}}), (std::vector<CpuSet>{{0, 2}, {1, 3}}));
}

TEST(ShareCores, DealsWhatIsNearSeveralDevicesOnce) {
  const CpuSet lower{0, 4, 1, 5, 2, 6};
  const CpuSet upper{1, 5, 2, 6, 3, 7};
  EXPECT_EQ(share_cores(cores(4), {upper, lower}),
            (std::vector<CpuSet>{{2, 3, 6, 7}, {0, 1, 4, 5}}));
  EXPECT_EQ(share_cores(cores(4), {lower, upper}),
            (std::vector<CpuSet>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  const CpuSet all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(share_cores(cores(4), {all, {0, 4, 1, 5}}),
            (std::vector<CpuSet>{{2, 3, 6, 7}, {0, 1, 4, 5}}));
}

TEST(ShareCores, GoesFartherBeforeAnyIsShared) {
  const CpuSet left{0, 1, 4, 5};
  const CpuSet right{2, 3, 6, 7};
  EXPECT_EQ(share_cores(cores(4), {left, left, left}),
            (std::vector<CpuSet>{{0, 4}, {1, 5}, {2, 3, 6, 7}}));
  const std::vector<CpuSet> near{left, left, left, right, right, right};
  EXPECT_EQ(share_cores(cores(4), near), near) << "there are none that would be nobody's";
}

TEST(ShareCores, SharesNoneWhileAnotherIsFree) {
  std::mt19937 random(7);
  const auto below = [&](unsigned int bound) { return static_cast<int>(random() % bound); };
  for (int trial = 0; trial < 2000; ++trial) {
    const int count = 1 + below(6);
    std::vector<CpuSet> near(static_cast<std::size_t>(1 + below(8)));
    for (CpuSet& each : near) {
      const int first = below(8);
      for (int cpu = first; cpu < first + below(6); ++cpu) each.insert(cpu);
    }
    std::vector<int> owners(static_cast<std::size_t>(2 * count));
    for (const CpuSet& share : share_cores(cores(count), near)) {
      EXPECT_FALSE(share.empty()) << "trial " << trial;
      for (const int cpu : share) ++owners[static_cast<std::size_t>(cpu)];
    }
    if (std::ranges::max(owners) == 1) continue;
    EXPECT_GT(std::ranges::min(owners), 0) << "trial " << trial;
    EXPECT_GT(near.size(), static_cast<std::size_t>(count)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace tandem
