#include "device/cuda_version.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(DriverProblem, IsAnOlderMajorVersion) {
  EXPECT_EQ(driver_problem(12080, 13000),
            "the NVIDIA driver supports CUDA 12.8, but Tandem was built with 13.0; update the "
            "driver");
  EXPECT_EQ(driver_problem(11040, 12040),
            "the NVIDIA driver supports CUDA 11.4, but Tandem was built with 12.4; update the "
            "driver");
  EXPECT_EQ(driver_problem(13000, 13000), "");
  EXPECT_EQ(driver_problem(12040, 12090), "") << "minor versions are compatible";
  EXPECT_EQ(driver_problem(13010, 12040), "");
}

}  // namespace
}  // namespace tandem
