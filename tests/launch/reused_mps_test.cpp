#include "launch/reused_mps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::string share_message(const char* value, SlotRequest request = {.reuse_mps = true}) {
  return message_of<InputError>(
      [&] { require_mps_share(request, [&](const char*) { return value; }); });
}

constexpr const char* nothing = "nothing was thrown";

TEST(MpsShare, OfTheEnvironmentIsOneOfAGpu) {
  for (const char* good : {"1", "100", "12.5"}) EXPECT_EQ(share_message(good), nothing) << good;
  for (const char* bad : {"0", "101", "-5", "half", ""}) {
    EXPECT_TRUE(share_message(bad).starts_with(std::string("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='") +
                                               bad + "' is no share of a GPU"))
        << bad;
  }
  EXPECT_EQ(share_message(nullptr), nothing);
  EXPECT_EQ(share_message("150", {.sm_percent = 20, .reuse_mps = true}), nothing);
  EXPECT_EQ(share_message("150", {}), nothing) << "the ranks do not get it";
}

/// A daemon whose answers are files, and which has 40 clients, of the processes 1 to 40.
class ReusedDaemon : public testing::Test {
 protected:
  ReusedDaemon() {
    ::unsetenv("FAKE_MPS");  // which says what goes wrong
    ::setenv("PATH", (std::string(TANDEM_FAKE_MPS_FOLDER ":") + path_).c_str(), 1);
    std::ofstream(folder_ / "nvidia-cuda-mps-control.pid") << "4711\n";
    std::ofstream clients(folder_ / "clients");
    for (int client = 1; client <= 40; ++client) clients << client << '\n';
  }
  ~ReusedDaemon() override { ::setenv("PATH", path_.c_str(), 1); }

  std::string message(int ranks, const std::vector<GpuInfo>& gpus, int cuda_version = 13000) const {
    return message_of_some(ranks, gpus, gpus, cuda_version);
  }
  std::string message_of_some(int ranks, const std::vector<GpuInfo>& used,
                              const std::vector<GpuInfo>& host, int cuda_version = 13000) const {
    return message_of<InputError>([&] {
      require_free_clients({.processes_per_gpu = ranks, .reuse_mps = true},
                           {.gpus = host, .cuda_version = cuda_version}, used,
                           MpsControl(folder_.path()));
    });
  }

  const std::string path_ = std::getenv("PATH");
  const TemporaryFolder folder_;
};

TEST_F(ReusedDaemon, HasItsClientsCountedOnTheirGpu) {
  const GpuInfo other{.uuid = "GPU-a", .processes = {1, 2, 50}};
  GpuInfo full{.uuid = "GPU-b"};
  for (int process = 3; process <= 40; ++process) full.processes.push_back(process);
  EXPECT_EQ(message(10, {other, full}), nothing);
  EXPECT_NE(message(11, {other, full}).find(" has 38 clients on GPU-b "), std::string::npos);
  EXPECT_EQ(message(22, {other, full}, 13010), nothing);
  EXPECT_NE(message(23, {other, full}, 13010).find(" takes 60 processes"), std::string::npos);
}

TEST_F(ReusedDaemon, HasAllOfThemOnAHostsOnlyGpu) {
  EXPECT_EQ(message(8, {{.uuid = "GPU-a"}}), nothing);
  EXPECT_NE(message(9, {{.uuid = "GPU-a"}}).find(" has 40 clients on GPU-a "), std::string::npos);
}

TEST_F(ReusedDaemon, HasThoseThatAreNamedOnAHostsOnlyGpu) {
  const GpuInfo gpu{.uuid = "GPU-a", .processes = {1, 2, 50}};
  EXPECT_EQ(message(46, {gpu}), nothing);
  EXPECT_NE(message(47, {gpu}).find(" has 2 clients on GPU-a "), std::string::npos);
}

TEST_F(ReusedDaemon, HasNotAllOfThemOnTheOnlyOneOfSeveralGpusThatIsUsed) {
  const GpuInfo used{.uuid = "GPU-a", .processes = {50}};
  EXPECT_EQ(message_of_some(48, {used}, {used, {.uuid = "GPU-b"}}), nothing);
}

TEST_F(ReusedDaemon, ThatDoesNotAnswerIsLeftToTheRanks) {
  std::filesystem::remove(folder_ / "nvidia-cuda-mps-control.pid");
  EXPECT_EQ(message(47, {{.uuid = "GPU-a"}}), nothing);
}

}  // namespace
}  // namespace tandem
