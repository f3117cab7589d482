#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/run_folder.h"
#include "device/gpu_list.h"

// Four data-parallel ranks are the same training wherever they are placed: the same losses, step by
// step, and the same weights within rounding, with bit-equal replicas after every step. The
// reference are four MPI processes on the CPU with one flat sum of gradients.

namespace tandem::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int ranks = 4;
constexpr int steps = 16;
/// What 16 steps make of roundings: of a loss, and of a checkpoint's values by their norm.
constexpr double loss_tolerance = 5e-4;
constexpr double weight_tolerance = 5e-3;

struct Placement {
  std::string name;
  Words launch;         ///< options of tandem launch
  std::string device;   ///< train.device
  std::string sums;     ///< the communicator that is to sum the gradients, as the records name it
  Words settings = {};  ///< further assignments
  int seen_gpus = 0;    ///< of ranks that mpirun alone starts, without MPS; 0: tandem launch does
};

void PrintTo(const Placement& placement, std::ostream* out) { *out << placement.name; }

class PlacementTest : public RunTest {
 protected:
  PlacementTest() {
    trained("reference", settings({"train.device=cpu", "parallel.reduction=flat"}), ranks);
  }

  /// Replicas are compared bit by bit after each step, which ends the run where they differ.
  static Words settings(Words more) {
    more.insert(more.end(), {"train.precision=fp32", "parallel.check_every=1", "train.epochs=1",
                             "train.global_batch=64", "data.train_size=1024", "data.height=16",
                             "data.width=16", "optimizer.lr=0.005"});
    return set(more);
  }

  void train_placed(const Placement& placement) const {
    Words more{"train.device=" + placement.device};
    more.insert(more.end(), placement.settings.begin(), placement.settings.end());
    const Outcome outcome =
        run(placement.seen_gpus > 0 ? started_by_mpirun(placement.seen_gpus, settings(more))
                                    : launched(placement.launch, settings(more)));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err,
                          "warning: several ranks share a GPU without MPS: they take turns on it, "
                          "which is far slower than one rank alone"),
              placement.seen_gpus > 0 ? 1U : 0U)
        << outcome.err;
    const std::vector<Record> starts = read_metrics(path("placed"), "start");
    ASSERT_EQ(starts.size(), 1U);
    EXPECT_EQ(starts[0].texts.at("communicator"), placement.sums);
    EXPECT_EQ(starts[0]["ranks"], ranks);
  }

  Launch launched(const Words& options, const Words& settings) const {
    const Words train = train_command("placed", settings);
    Words words{"launch"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), train.begin() + 1, train.end());
    return {.command = tandem(words), .folder = root()};
  }

  /// Without the variable that says an MPS daemon is meant, where none would be an error.
  Launch started_by_mpirun(int gpus, const Words& settings) const {
    Words words{"env", "-u", "CUDA_MPS_PIPE_DIRECTORY"};
    const Words train = train_command("placed", settings, ranks);
    words.insert(words.end(), train.begin(), train.end());
    std::string seen;
    for (const GpuInfo& gpu : list_visible_gpus().gpus) {
      if (gpus-- > 0) seen += (seen.empty() ? "" : ",") + gpu.uuid;
    }
    return {.command = words, .folder = root(), .environment = {{"CUDA_VISIBLE_DEVICES", seen}}};
  }

  double loss_difference(const std::string& out) const {
    const auto wanted = train_losses(path("reference"));
    const auto got = train_losses(path(out));
    EXPECT_EQ(wanted.size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(got.size(), wanted.size());
    double largest = 0.0;
    for (const auto& [step, loss] : wanted) {
      largest = std::max(largest, std::abs(got.at(step) - loss) / std::abs(loss));
    }
    return largest;
  }

  double weight_difference(const std::string& out) const {
    return relative_difference(checkpoint(path("reference"), steps), checkpoint(path(out), steps));
  }

  void expect_the_reference(const Placement& placement) const {
    train_placed(placement);
    if (HasFatalFailure()) return;
    const double losses = loss_difference("placed");
    const double weights = weight_difference("placed");
    std::cout << fmt::format("{}: losses differ by {:.1e}, weights by {:.1e}\n", placement.name,
                             losses, weights);
    EXPECT_LE(losses, loss_tolerance);
    EXPECT_LE(weights, weight_tolerance);
  }
};

class RanksOfAHost : public PlacementTest, public testing::WithParamInterface<Placement> {};
class RanksOnOneGpu : public PlacementTest, public testing::WithParamInterface<Placement> {};
class RanksOnTwoGpus : public PlacementTest, public testing::WithParamInterface<Placement> {};
class RanksOnFourGpus : public PlacementTest, public testing::WithParamInterface<Placement> {};

TEST_P(RanksOfAHost, TrainAsFourProcesses) { expect_the_reference(GetParam()); }
TEST_P(RanksOnOneGpu, TrainAsFourProcesses) { expect_the_reference(GetParam()); }
TEST_P(RanksOnTwoGpus, TrainAsFourProcesses) { expect_the_reference(GetParam()); }
TEST_P(RanksOnFourGpus, TrainAsFourProcesses) { expect_the_reference(GetParam()); }

/// Else the tests above could not tell ranks from no ranks.
using OneRank = PlacementTest;
TEST_F(OneRank, WithTheWholeBatchIsAnotherTraining) {
  trained("one", settings({"train.device=cpu"}));
  const double losses = loss_difference("one");
  const double weights = weight_difference("one");
  std::cout << fmt::format("one rank: losses differ by {:.1e}, weights by {:.1e}\n", losses,
                           weights);
  EXPECT_GT(losses, 20.0 * loss_tolerance);
  EXPECT_GT(weights, 5.0 * weight_tolerance);
}

/// Ranks on each GPU, or of each host, as processes and folded.
Placement processes(const std::string& name, const std::string& gpus, int each,
                    const std::string& device, const std::string& sums, Words settings = {}) {
  Words launch{"--gpus", gpus, "--ranks-per-gpu", std::to_string(each)};
  if (device == "cpu") launch.emplace_back("--oversubscribe");
  return {name, std::move(launch), device, sums, std::move(settings)};
}
Placement folded(const std::string& name, const std::string& gpus, int each,
                 const std::string& device, const std::string& sums) {
  return {name,
          {"--gpus", gpus, "--ranks-per-gpu", std::to_string(each), "--colocation", "folded"},
          device,
          sums};
}

/// As many processes as there are ranks, without `tandem launch`, which all see as many GPUs.
Placement of_mpirun(const std::string& name, int gpus, const std::string& device,
                    const std::string& sums) {
  return {.name = name, .launch = {}, .device = device, .sums = sums, .seen_gpus = gpus};
}

std::string name_of(const testing::TestParamInfo<Placement>& test) {
  std::string name = test.param.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    All, RanksOfAHost,
    testing::Values(processes("host, 4 processes", "none", 4, "cpu", "colocated"),
                    folded("host, 4 folded", "none", 4, "cpu", "mpi"),
                    processes("host, 2 processes of 2 folded", "none", 2, "cpu", "colocated",
                              {"parallel.folded_ranks=2"})),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    All, RanksOnOneGpu,
    testing::Values(folded("1 GPU, 4 folded", "1", 4, "cuda", "self"),
                    processes("1 GPU, 4 processes under MPS", "1", 4, "cuda", "colocated"),
                    processes("1 GPU, 4 processes under MPS, states of their own", "1", 4, "cuda",
                              "colocated", {"parallel.shared_state=false"})),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    All, RanksOnTwoGpus,
    testing::Values(processes("2 GPUs, 2 processes each under MPS", "2", 2, "cuda", "hierarchical"),
                    folded("2 GPUs, 2 folded each", "2", 2, "cuda", "direct"),
                    of_mpirun("2 GPUs, 2 processes each in turns", 2, "cuda", "hierarchical")),
    name_of);
INSTANTIATE_TEST_SUITE_P(All, RanksOnFourGpus,
                         testing::Values(processes("4 GPUs, 1 each", "4", 1, "cuda", "direct")),
                         name_of);

}  // namespace
}  // namespace tandem::cli
