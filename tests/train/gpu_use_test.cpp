#include "train/gpu_use.h"

#include "parallel/mpi_test.h"

namespace tandem {
namespace {

// Made-up counters: tests/device/fake_nvml.cpp. Each process has its own.
constexpr const char* fake = TANDEM_FAKE_NVML;

TEST(GpuUseTest, RanksOfOneGpuReadItOnce) {
  GpuUse use(world(), "GPU-whole", fake);
  use.begin();
  const std::optional<GpuActivity> found = use.end();
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_EQ(found->sm_activity, 0.5);
  EXPECT_EQ(found->tensor_activity, 0.0);
  EXPECT_FALSE(found->sm_occupancy) << "its reading failed";
  EXPECT_FALSE(found->dram_activity) << "it is not a number";
  EXPECT_EQ(found->energy_joules, 2.5);
}

// The first rank on a whole GPU, the others on an instance, whose energy nobody measures.
TEST(GpuUseTest, SeveralGpusAreAveragedAndWhatOneDoesNotTellIsAbsent) {
  GpuUse use(world(), world().rank() == 0 ? "GPU-whole" : "MIG-part", fake);
  use.begin();
  const std::optional<GpuActivity> found = use.end();
  if (!found || world().size() == 1) return;
  EXPECT_DOUBLE_EQ(found->sm_activity.value(), 0.35);  // of 0.5 and 0.2
  EXPECT_FALSE(found->energy_joules);
}

TEST(GpuUseTest, TheEnergyOfSeveralGpusIsTheirSum) {
  GpuUse use(world(), world().rank() == 0 ? "GPU-whole" : "GPU-old", fake);
  use.begin();
  (void)use.end();
  const std::optional<GpuActivity> second = use.end();
  if (!second) return;
  EXPECT_EQ(second->energy_joules, world().size() == 1 ? 2.5 : 5.0);
  EXPECT_EQ(second->sm_activity.has_value(), world().size() == 1);
}

TEST(GpuUseTest, WithoutNvmlNothingIsToldOfGpus) {
  GpuUse use(world(), "GPU-whole", "/nowhere/libnvidia-ml.so.1");
  use.begin();
  const std::optional<GpuActivity> found = use.end();
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_FALSE(found->sm_activity);
  EXPECT_FALSE(found->energy_joules);
}

TEST(GpuUseTest, OnCpusThereIsNothingToTell) {
  GpuUse use(world(), "", fake);
  use.begin();
  EXPECT_FALSE(use.end());
}

}  // namespace
}  // namespace tandem
