#include "train/host_memory_need.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "parallel/self_communicator.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"
#include "train/step/replica.h"

namespace tandem {
namespace {

RunConfig run_with(const std::string& more) {
  return read_run_config(ConfigTable::from_text(small_run_text(more), "run.toml"));
}

RunMemoryNeed need_of(const RunConfig& config, const HostPlaces& places) {
  return least_host_memory(config, places).value();
}

/// Of a rank's running statistics: what one more folded rank adds.
std::size_t statistics_bytes() {
  RunConfig config = run_with("");
  const std::size_t one = need_of(config, {}).state;
  config.folded_ranks = 2;
  return need_of(config, {}).state - one;
}

// Of a rank that is made of the same config; its kernels, which keep more, are not known before.
TEST(HostMemoryNeed, IsBelowWhatARankTakes) {
  const RunConfig config = run_with("");
  const RunMemoryNeed need = need_of(config, {});
  const Graph model = load_model(find_model(config.model),
                                 {.classes = 4, .channels = 1, .size = config.data.transform.size});
  AnyContext context = CpuContext(1);
  SelfCommunicator self;
  const Replica replica(config, model, 16, context, self);
  EXPECT_EQ(need.batch, 16);
  EXPECT_EQ(need.shared, 0U) << "nobody to share with";
  EXPECT_EQ(need.state, replica.state_bytes());
  EXPECT_LE(need.activations, replica.plan().activation_bytes());
  // How much more goes by the processor's instructions: 3.7 times as much was seen.
  EXPECT_GE(8 * need.activations, replica.plan().activation_bytes());
  EXPECT_EQ(replica.plan().gradient_memory(), GradientMemory::stored)
      << "read after the next forward on a host";
}

TEST(HostMemoryNeed, HasTheStateOnceWhereItIsShared) {
  const RunMemoryNeed alone = need_of(run_with(""), {});
  const RunMemoryNeed shared = need_of(run_with(""), {.processes = 4});
  EXPECT_EQ(shared.batch, 4);
  EXPECT_EQ(shared.shared + shared.state, alone.state);
  const std::size_t statistics = statistics_bytes();
  EXPECT_GT(statistics, 0U);
  EXPECT_EQ(3 * (shared.state - statistics), alone.state - statistics)
      << "gradients, of values, gradients and momentum";
  EXPECT_EQ(shared.bytes(), shared.shared + 4 * (shared.state + shared.activations));
  EXPECT_LT(shared.activations, alone.activations / 3);
  const RunMemoryNeed averaged = need_of(run_with("ema_decay = 0.9\n"), {.processes = 4});
  EXPECT_EQ(averaged.state - statistics, 2 * (shared.state - statistics));
  EXPECT_EQ(need_of(run_with("accumulate = 2\n"), {.processes = 2, .hosts = 2}).batch, 2);
}

TEST(HostMemoryNeed, HasRunningStatisticsOnceWhereTheyAreOverAllRanks) {
  RunConfig config = run_with("sync_batch_norm = true\n");
  const std::size_t one = need_of(config, {}).state;
  config.folded_ranks = 2;
  EXPECT_EQ(need_of(config, {}).state, one);
}

TEST(HostMemoryNeed, CountsTheClassesOfAFolder) {
  const TemporaryFolder data;
  for (const char* part : {"train/a", "train/b", "train/c", "validation/a"}) {
    std::filesystem::create_directories(data.path() / part);
  }
  std::ofstream(data.path() / "train/README") << "no class";
  // A model that has its own number of outputs is refused for any other number of classes.
  std::ofstream(data.path() / "three.toml")
      << "node = [{name = 'pool', op = 'global_average_pool'}, "
         "{name = 'fc', op = 'linear', out = 3}]";
  const auto need = [&](const char* train) {
    const std::string text = fmt::format(
        R"([model]
name = "{0}/three.toml"
[data]
kind = "folder"
train_path = "{0}/{1}"
test_path = "{0}/validation"
size = 8
[train]
epochs = 1
global_batch = 4
[optimizer]
kind = "sgd"
lr = 0.1
)",
        data.path().string(), train);
    return least_host_memory(read_run_config(ConfigTable::from_text(text, "run.toml")), {});
  };
  EXPECT_GT(need("train")->activations, 0U);
  EXPECT_THROW(need("validation"), InputError);
}

TEST(HostMemoryNeed, IsLeftToTheRanksWhereTheBatchCannotBeDealt) {
  EXPECT_FALSE(least_host_memory(run_with(""), {.processes = 3}));
  EXPECT_NO_THROW(require_host_memory(run_with(""), {.processes = 3}, 1));
}

TEST(HostMemoryNeed, SaysWhatIsNeededWhatIsThereAndWhatFits) {
  const RunConfig config = run_with("");
  const std::size_t eight = need_of(config, {.processes = 8}).bytes();
  EXPECT_NO_THROW(require_host_memory(config, {.processes = 8}, eight));
  const auto message = [&](const HostPlaces& places, std::size_t available) {
    return message_of<InputError>([&] { require_host_memory(config, places, available); });
  };
  const std::string fewer = message({.processes = 8}, eight - 1);
  for (const char* part :
       {"training does not fit the memory of this host: each of 8 processes needs at least ",
        " of activations for 2 samples at once and ", " of gradients, and all together ",
        " of parameters and optimizer state; of ",
        " are available; 4 processes fit with the same train.global_batch: ",
        ": lower --ranks-per-gpu, or mpirun -n"}) {
    EXPECT_NE(fewer.find(part), std::string::npos) << fewer << "\nwanted: " << part;
  }
  const std::string none = message({.processes = 8, .hosts = 2}, 1000);
  EXPECT_TRUE(none.starts_with("training does not fit the memory of each host: ")) << none;
  EXPECT_TRUE(none.ends_with(
      ", 1000 B are available; hardly one sample fits in each process: use a smaller "
      "model, fewer processes with a smaller batch, or lower data.size"))
      << none;
  EXPECT_NE(message({}, 1000).find("this host: it needs at least "), std::string::npos);
}

TEST(HostMemoryNeed, SaysHowManySamplesFit) {
  RunConfig large = run_with("");
  large.global_batch = 1000;
  large.folded_ranks = 4;
  RunConfig small = large;
  small.accumulate = 2;
  const std::size_t room = least_host_memory(small, {}).value().bytes() / 9 * 10;
  const std::string message = message_of<InputError>([&] { require_host_memory(large, {}, room); });
  const std::string about = " are available; about ";
  const std::size_t at = message.find(about);
  ASSERT_NE(at, std::string::npos) << message;
  const int samples = std::stoi(message.substr(at + about.size()));
  EXPECT_NEAR(samples, 500, 15);
  EXPECT_EQ(samples % large.folded_ranks, 0);
}

}  // namespace
}  // namespace tandem
