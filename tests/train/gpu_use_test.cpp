#include "train/gpu_use.h"

#include <chrono>
#include <thread>

#include "parallel/mpi_test.h"

namespace tandem {
namespace {

// Made-up counters: tests/device/fake_nvml.cpp. Each process has its own.
constexpr const char* fake = TANDEM_FAKE_NVML;

TEST(GpuUseTest, RanksOfOneGpuReadItOnce) {
  GpuUse use(world(), "GPU-whole", fake, 0.0);
  use.begin();
  const std::optional<GpuStretch> found = use.end();
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_EQ(found->activity.sm_activity, 0.5);
  EXPECT_EQ(found->activity.tensor_activity, 0.0);
  EXPECT_FALSE(found->activity.sm_occupancy) << "its reading failed";
  EXPECT_FALSE(found->activity.dram_activity) << "it is not a number";
  EXPECT_EQ(found->activity.energy_joules, 2.5);
}

// The first rank on a whole GPU, the others on an instance, whose energy nobody measures.
TEST(GpuUseTest, SeveralGpusAreAveragedAndWhatOneDoesNotTellIsAbsent) {
  GpuUse use(world(), world().rank() == 0 ? "GPU-whole" : "MIG-part", fake, 0.0);
  use.begin();
  const std::optional<GpuStretch> found = use.end();
  if (!found || world().size() == 1) return;
  EXPECT_DOUBLE_EQ(found->activity.sm_activity.value(), 0.35);  // of 0.5 and 0.2
  EXPECT_FALSE(found->activity.energy_joules);
}

TEST(GpuUseTest, TheEnergyOfSeveralGpusIsTheirSum) {
  GpuUse use(world(), world().rank() == 0 ? "GPU-whole" : "GPU-old", fake, 0.0);
  use.begin();
  (void)use.end();
  const std::optional<GpuStretch> second = use.end();
  if (!second) return;
  EXPECT_EQ(second->activity.energy_joules, world().size() == 1 ? 2.5 : 5.0);
  EXPECT_EQ(second->activity.sm_activity.has_value(), world().size() == 1);
}

TEST(GpuUseTest, WithoutNvmlNothingIsToldOfGpus) {
  GpuUse use(world(), "GPU-whole", "/nowhere/libnvidia-ml.so.1", 0.0);
  use.begin();
  const std::optional<GpuStretch> found = use.end();
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_FALSE(found->activity.sm_activity);
  EXPECT_FALSE(found->activity.energy_joules);
}

TEST(GpuUseTest, AStretchGoesOnUntilItIsLongEnough) {
  GpuUse use(world(), "GPU-whole", fake, 0.05);
  use.begin();
  EXPECT_FALSE(use.end());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const std::optional<GpuStretch> found = use.end();
  EXPECT_FALSE(use.end()) << "another has begun";
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_GE(found->seconds, 0.06) << "what was too short is in it";
  EXPECT_EQ(found->activity.energy_joules, 2.5);
}

TEST(GpuUseTest, OnCpusThereIsNothingToTell) {
  GpuUse use(world(), "", fake, 0.0);
  use.begin();
  EXPECT_FALSE(use.end());
}

}  // namespace
}  // namespace tandem
