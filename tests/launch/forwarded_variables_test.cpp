#include "launch/forwarded_variables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace tandem {
namespace {

using Texts = std::vector<std::string>;

TEST(ForwardedVariables, AreThoseThatRanksAndNcclRead) {
  const Texts environment{
      "NCCL_SOCKET_IFNAME=eth1", "TANDEM_START_SECONDS=60",   "HOME=/root",
      "CUDA_DEVICE_ORDER=",      "CUDA_VISIBLE_DEVICES=0",    "NCCL_SOCKET_IFNAME=eth2",
      "MY_NCCL_DEBUG=INFO",      "CUDA_MPS_PIPE_DIRECTORY=/m"};
  EXPECT_EQ(forwarded_variables(environment, false),
            (Texts{"CUDA_DEVICE_ORDER", "NCCL_SOCKET_IFNAME", "TANDEM_START_SECONDS"}));
  EXPECT_EQ(forwarded_variables(environment, true),
            (Texts{"CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "NCCL_SOCKET_IFNAME",
                   "TANDEM_START_SECONDS"}));
}

TEST(ForwardedVariables, AreNoneOfThisHostsProcesses) {
  EXPECT_EQ(
      forwarded_variables(Texts{"TANDEM_REPORT=7", "TANDEM_SHARED_MEMORY_FOLDER=/dev/shm/x"}, true),
      Texts());
}

TEST(ForwardedVariables, AreReadOfThisProcess) {
  ::setenv("TANDEM_FORWARDED_TEST", "1", 1);
  const Texts names = forwarded_variables(environment_texts(), false);
  EXPECT_EQ(std::ranges::count(names, "TANDEM_FORWARDED_TEST"), 1);
  ::unsetenv("TANDEM_FORWARDED_TEST");
}

}  // namespace
}  // namespace tandem
