#include "device/gpu_monitor.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

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

/// The signals that this process's thread of that name blocks, number n as bit n - 1; none where
/// there is no such thread.
std::uint64_t blocked_in(const std::string& thread) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    bool named = false;
    const std::string key = "SigBlk:";
    for (std::string line; std::getline(file, line);) {
      if (line == "Name:\t" + thread) named = true;
      if (named && line.starts_with(key)) return std::stoull(line.substr(key.size()), nullptr, 16);
    }
  }
  return 0;
}

// The kernel gives a signal to any thread that does not block it, and its default action ends all.
TEST(GpuMonitorTest, TheDriversThreadsTakeNoSignals) {
  const GpuMonitor monitor("GPU-whole", fake);
  sigset_t own;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &own), 0);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(blocked_in("fake_nvml") >> (number - 1) & 1U, 1U) << number;
    EXPECT_EQ(sigismember(&own, number), 0) << number;
  }
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

TEST(GpuMonitorTest, ACounterThatHasNotMovedTellsNothing) {
  GpuMonitor monitor("GPU-still", fake);
  monitor.begin();
  expect_nothing(monitor.end());
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
