#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/message_check.h"
#include "cli/run_folder.h"

// What would end a run on GPUs, or make its replicas part, is told in one line before anything is
// trained: a driver too old for the toolkit, ranks that the GPUs cannot be dealt to, and libraries
// that differ between ranks. The GPUs and the versions are made up.

namespace tandem::cli {
namespace {

class CudaVersions : public RunTest {
 protected:
  /// A run on `device` where the environment has this too.
  Outcome train_on(const std::string& device, int ranks,
                   std::pair<std::string, std::string> variable) const {
    return run(
        {.command = train_command(
             "out", set({"train.epochs=1", fmt::format("train.device=\"{}\"", device)}), ranks),
         .folder = root(),
         .environment = {{"LD_PRELOAD", TANDEM_FAKE_CUDA},
                         {"TANDEM_CACHE_DIR", path("cache").string()},
                         std::move(variable)}});
  }

  bool run_began() const { return std::filesystem::exists(path("out/metrics.jsonl")); }
};

class OldDriver : public CudaVersions, public testing::WithParamInterface<int> {
 protected:
  /// Older than every toolkit that Tandem is built with.
  const std::pair<std::string, std::string> driver{"TANDEM_DRIVER_VERSION", "11040"};
  const std::string problem =
      "the NVIDIA driver supports CUDA 11.4, but Tandem was built with " TANDEM_CUDA_TOOLKIT
      "; update the driver";
};

TEST_P(OldDriver, IsToldBeforeTrainingOnGpus) {
  expect_one_message(train_on("cuda", GetParam(), driver),
                     {fmt::format("error: rank 0 on host {} can use no GPU: {}, or set "
                                  "train.device = \"cpu\"",
                                  host_name(), problem)});
  EXPECT_FALSE(run_began());
}

TEST_P(OldDriver, IsWarnedOfWhereTheCpuTakesOver) {
  const Outcome outcome = train_on("auto", GetParam(), driver);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "warning: computing on the CPU: " + problem + "\n"), 1U)
      << outcome.err;
  EXPECT_EQ(train_losses(path("out")).size(), 8U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, OldDriver, testing::Values(1, 2));

TEST_F(CudaVersions, AGpuOfAnotherArchitectureIsToldBeforeTraining) {
  for (const int ranks : {1, 2}) {
    expect_one_message(
        train_on("auto", ranks, {"TANDEM_KERNEL_IMAGE", "none"}),
        {"Made-up GPU has compute capability 9.0, and Tandem was built "
         "for " TANDEM_BUILT_ARCHITECTURES ": build it where that GPU is seen, or with "
         "-DCMAKE_CUDA_ARCHITECTURES=90, or set train.device = \"cpu\""});
    EXPECT_FALSE(run_began());
  }
}

TEST_F(CudaVersions, AGpuBeforeAmpereIsToldBeforeTraining) {
  expect_one_message(
      train_on("auto", 1, {"TANDEM_CAPABILITY", "75"}),
      {"Made-up GPU has compute capability 7.5, and Tandem takes 8.0 or later: choose "
       "other GPUs by CUDA_VISIBLE_DEVICES, or set train.device = \"cpu\""});
  EXPECT_FALSE(run_began());
}

class MoreRanksThanGpus : public CudaVersions, public testing::WithParamInterface<std::string> {};

TEST_P(MoreRanksThanGpus, AreToldBeforeTrainingWhereTheyCannotBeDealtEvenly) {
  expect_one_message(train_on(GetParam(), 3, {"TANDEM_GPUS", "2"}),
                     {fmt::format("error: host {}: 3 ranks cannot be dealt evenly to its 2 GPUs; "
                                  "start 2 or 4 ranks there",
                                  host_name())});
  EXPECT_FALSE(run_began());
}

INSTANTIATE_TEST_SUITE_P(Devices, MoreRanksThanGpus, testing::Values("cuda", "auto"),
                         [](const auto& each) { return each.param; });

struct Difference {
  std::string fact;  ///< as $TANDEM_NEWER_ON_RANK_1 has it
  std::string told;
  std::string usual;
  std::string other;  ///< on rank 1
  std::string remedy;
};

class UnlikeRanks : public CudaVersions, public testing::WithParamInterface<Difference> {};

TEST_P(UnlikeRanks, AreToldBeforeTraining) {
  const auto& [fact, told, usual, other, remedy] = GetParam();
  expect_one_message(train_on("cuda", 2, {"TANDEM_NEWER_ON_RANK_1", fact}),
                     {fmt::format("error: the ranks differ in {0}: rank 0 on {1} has {2}; "
                                  "rank 1 on {1} has {3}; {4}",
                                  told, host_name(), usual, other, remedy)});
  EXPECT_FALSE(run_began());
}

const std::string one_version = "install the same version on every host";

INSTANTIATE_TEST_SUITE_P(
    Facts, UnlikeRanks,
    testing::Values(Difference{"CUDA", "CUDA", "13.0", "13.1", one_version},
                    Difference{"cuDNN", "cuDNN", "9.19.0", "9.19.1", one_version},
                    Difference{"cuBLASLt", "cuBLASLt", "13.1.0", "13.1.1", one_version},
                    Difference{"NCCL", "NCCL", "2.28.9", "2.28.10", one_version},
                    Difference{"capability", "the GPUs' compute capability", "9.0", "9.1",
                               "run on GPUs of one generation"}),
    [](const auto& each) { return each.param.fact; });

}  // namespace
}  // namespace tandem::cli
