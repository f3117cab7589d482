#include "launch/mps_environment.h"

#include <gtest/gtest.h>

#include <map>

namespace tandem {
namespace {

using Texts = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

ReadEnvironment environment_with(const Variables& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string warning_of(const SlotRequest& request, const Variables& variables) {
  testing::internal::CaptureStderr();
  warn_of_foreign_mps(request, environment_with(variables));
  return testing::internal::GetCapturedStderr();
}

const Variables all{{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/mine"},
                    {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10"},
                    {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G"}};

TEST(ForeignMpsLimits, AreThoseOfTheEnvironmentButWithTheUsersDaemon) {
  EXPECT_EQ(foreign_mps_limits({}, environment_with(all)),
            (Texts{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"}));
  EXPECT_EQ(foreign_mps_limits({.sm_percent = 40}, environment_with(all)).size(), 2U);
  EXPECT_EQ(foreign_mps_limits({}, environment_with({})), Texts());
  EXPECT_EQ(foreign_mps_limits({.reuse_mps = true}, environment_with(all)), Texts());
}

TEST(ForeignMpsVariables, AreWarnedOfInOneLine) {
  const std::string advice =
      " ignored: the ranks use no MPS daemon but the job's own, if it has one; --reuse-mps takes "
      "yours, with its limits, and --sm-percent sets the share of each rank\n";
  EXPECT_EQ(warning_of({}, all),
            "warning: the environment's CUDA_MPS_PIPE_DIRECTORY='/tmp/mine', "
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='10', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=1G' are" +
                advice);
  EXPECT_EQ(warning_of({}, {{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/mine"}}),
            "warning: the environment's CUDA_MPS_PIPE_DIRECTORY='/tmp/mine' is" + advice);
  EXPECT_EQ(warning_of({}, {}), "");
  EXPECT_EQ(warning_of({.reuse_mps = true}, all), "");
}

}  // namespace
}  // namespace tandem
