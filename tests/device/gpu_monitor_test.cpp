#include "device/gpu_monitor.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

// Made-up counters: tests/device/fake_nvml.cpp.
constexpr const char* fake = TANDEM_FAKE_NVML;

void expect_nothing(const GpuActivity& activity) {
  EXPECT_FALSE(activity.sm_activity);
  EXPECT_FALSE(activity.sm_occupancy);
  EXPECT_FALSE(activity.tensor_activity);
  EXPECT_FALSE(activity.dram_activity);
  EXPECT_FALSE(activity.energy_joules);
}

TEST(GpuMonitorTest, TellsWhatCanBeReadAndNothingElse) {
  GpuMonitor monitor("GPU-whole", fake);
  EXPECT_EQ(monitor.trouble(), "");
  monitor.begin();
  const GpuActivity activity = monitor.end();
  EXPECT_EQ(activity.sm_activity, 0.5);
  EXPECT_EQ(activity.tensor_activity, 0.0);
  EXPECT_FALSE(activity.sm_occupancy) << "its reading failed";
  EXPECT_FALSE(activity.dram_activity) << "it is not a number";
  EXPECT_EQ(activity.energy_joules, 2.5);
}

TEST(GpuMonitorTest, AStretchBeginsWhereTheLastOneEnded) {
  GpuMonitor monitor("GPU-whole", fake);
  monitor.begin();
  monitor.end();
  // The made-up metrics exist between neighbouring samples alone.
  const GpuActivity second = monitor.end();
  EXPECT_EQ(second.sm_activity, 0.5);
  EXPECT_EQ(second.energy_joules, 2.5);
}

TEST(GpuMonitorTest, AnInstanceHasItsOwnActivityAndNoEnergy) {
  for (const char* uuid : {"MIG-part", "GPU-part"}) {
    GpuMonitor monitor(uuid, fake);
    monitor.begin();
    const GpuActivity activity = monitor.end();
    EXPECT_EQ(activity.sm_activity, 0.2) << uuid;
    EXPECT_FALSE(activity.energy_joules) << uuid;
    EXPECT_EQ(monitor.trouble(), "the energy of a MIG instance is not measured");
  }
}

TEST(GpuMonitorTest, AnOlderGpuTellsItsEnergyAlone) {
  GpuMonitor monitor("GPU-old", fake);
  monitor.begin();
  GpuActivity activity = monitor.end();
  EXPECT_EQ(activity.energy_joules, 2.5);
  activity.energy_joules.reset();
  expect_nothing(activity);
  EXPECT_EQ(monitor.trouble(), "the GPU's activity cannot be read (NVML's GPM metrics)");
}

TEST(GpuMonitorTest, WithoutTheDeviceOrTheLibraryThereIsNothing) {
  GpuMonitor unknown("GPU-other", fake);
  unknown.begin();
  expect_nothing(unknown.end());
  EXPECT_EQ(unknown.trouble(), "NVML knows no device GPU-other: Not Found");
  GpuMonitor missing("GPU-whole", "/nowhere/libnvidia-ml.so.1");
  missing.begin();
  expect_nothing(missing.end());
  EXPECT_TRUE(missing.trouble().starts_with("NVML cannot be loaded (")) << missing.trouble();
}

}  // namespace
}  // namespace tandem
