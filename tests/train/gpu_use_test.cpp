#include "train/gpu_use.h"

#include <chrono>
#include <cstdint>
#include <iterator>
#include <thread>
#include <vector>

#include "parallel/mpi_test.h"

namespace tandem {
namespace {

// Made-up counters: tests/device/fake_nvml.cpp. Each process has its own.
constexpr const char* fake = TANDEM_FAKE_NVML;

TEST(GpuUseTest, RanksOfOneGpuReadItOnce) {
  GpuUse use(world(), "GPU-whole", fake, 0.0);
  use.begin();
  const std::optional<GpuStretch> found = use.end(8);
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
  const std::optional<GpuStretch> found = use.end(8);
  if (!found || world().size() == 1) return;
  EXPECT_DOUBLE_EQ(found->activity.sm_activity.value(), 0.35);  // of 0.5 and 0.2
  EXPECT_FALSE(found->activity.energy_joules);
}

TEST(GpuUseTest, TheEnergyOfSeveralGpusIsTheirSum) {
  GpuUse use(world(), world().rank() == 0 ? "GPU-whole" : "GPU-old", fake, 0.0);
  use.begin();
  (void)use.end(8);
  const std::optional<GpuStretch> second = use.end(8);
  if (!second) return;
  EXPECT_EQ(second->activity.energy_joules, world().size() == 1 ? 2.5 : 5.0);
  EXPECT_EQ(second->activity.sm_activity.has_value(), world().size() == 1);
}

TEST(GpuUseTest, WithoutNvmlNothingIsToldOfGpus) {
  GpuUse use(world(), "GPU-whole", "/nowhere/libnvidia-ml.so.1", 0.0);
  use.begin();
  const std::optional<GpuStretch> found = use.end(8);
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_FALSE(found->activity.sm_activity);
  EXPECT_FALSE(found->activity.energy_joules);
}

TEST(GpuUseTest, AStretchGoesOnUntilItIsLongEnough) {
  GpuUse use(world(), "GPU-whole", fake, 1.0);
  use.begin();
  EXPECT_FALSE(use.end(8));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const std::optional<GpuStretch> found = use.end(8);
  EXPECT_FALSE(use.end(8)) << "another has begun";
  ASSERT_EQ(found.has_value(), world().rank() == 0);
  if (!found) return;
  EXPECT_GE(found->seconds, 1.1) << "what was too short is in it";
  EXPECT_EQ(found->samples, 16);
  EXPECT_EQ(found->activity.energy_joules, 2.5);
}

void train_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Epochs of less than the shortest stretch, each with an evaluation at its end.
TEST(GpuUseTest, AStretchGoesOnThroughPausesWhereTrainingIsTooShortAlone) {
  constexpr double shortest = 0.4;
  GpuUse use(world(), "GPU-whole", fake, shortest);
  use.begin();
  std::vector<GpuStretch> told;
  std::int64_t epochs = 0;
  for (; told.size() < 3 && epochs < 100; ++epochs) {
    train_for(30);
    if (const std::optional<GpuStretch> found = use.end(8)) told.push_back(*found);
    use.paused(0.001);
    // The loop's end is rank 0's, which alone is told.
    std::int64_t count = std::ssize(told);
    world().broadcast(Tensor(&count, {sizeof count}, DType::u8), 0);
    told.resize(static_cast<std::size_t>(count));
  }
  ASSERT_EQ(told.size(), 3U) << epochs << " epochs of 30 ms";
  if (world().rank() != 0) return;
  for (const GpuStretch& each : told) {
    EXPECT_GE(each.seconds, shortest);
    const std::int64_t pauses = each.samples / 8 - 1;
    EXPECT_NEAR(each.seconds - each.training_seconds, 0.001 * static_cast<double>(pauses), 1e-9);
    EXPECT_EQ(each.activity.sm_activity, 0.5);
    EXPECT_EQ(each.activity.energy_joules, 2.5) << "between two readings";
  }
}

TEST(GpuUseTest, FiguresOfTrainingAloneLeaveThePausesOut) {
  GpuUse use(world(), "GPU-whole", fake, 0.05);
  use.begin();
  for (int epoch = 0; epoch < 3; ++epoch) {
    train_for(60);
    const std::optional<GpuStretch> found = use.end(8);
    (void)use.end(16);  // too short mostly; it ends with the pause
    use.paused(1000.0);
    ASSERT_EQ(found.has_value(), world().rank() == 0);
    if (!found) continue;
    EXPECT_EQ(found->training_seconds, found->seconds);
    EXPECT_EQ(found->samples, 8);
  }
}

TEST(GpuUseTest, APauseBeforeAnyTrainingIsLeftOut) {
  GpuUse use(world(), "GPU-whole", fake, 0.0);
  use.begin();
  use.paused(1000.0);
  const std::optional<GpuStretch> found = use.end(8);
  if (!found) return;
  EXPECT_EQ(found->training_seconds, found->seconds);
}

TEST(GpuUseTest, OnCpusThereIsNothingToTell) {
  GpuUse use(world(), "", fake, 0.0);
  use.begin();
  EXPECT_FALSE(use.end(8));
}

}  // namespace
}  // namespace tandem
