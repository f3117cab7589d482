#include "train/device_memory_need.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "parallel/self_communicator.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "train/host_memory_need.h"
#include "train/small_run.h"
#include "train/step/replica.h"

namespace tandem {
namespace {

RunConfig run_with(const std::string& more) {
  return read_run_config(ConfigTable::from_text(small_run_text(more), "run.toml"));
}

RunMemoryNeed need_of(const RunConfig& config, const DevicePlaces& places) {
  return least_device_memory(config, places).value();
}

/// Of a rank's running statistics: what one more folded rank adds.
std::size_t statistics_bytes() {
  RunConfig config = run_with("");
  const std::size_t one = need_of(config, {}).state;
  config.folded_ranks = 2;
  return need_of(config, {}).state - one;
}

// Of a rank that is made of the same config; its kernels, which keep more, are not known before.
TEST(DeviceMemoryNeed, IsBelowWhatARankTakes) {
  const RunConfig config = run_with("");
  const Graph model = load_model(find_model(config.model),
                                 {.classes = 4, .channels = 1, .size = config.data.transform.size});
  AnyContext context = CpuContext(1);
  SelfCommunicator self;
  const Replica replica(config, model, 16, context, self);
  const RunMemoryNeed need = need_of(config, {});
  EXPECT_EQ(need.batch, 16);
  EXPECT_EQ(need.shared, 0U) << "nobody to share with";
  EXPECT_EQ(need.state, replica.state_bytes() - replica.store().all_gradients().bytes())
      << "activations may lie in the gradients";
  EXPECT_LE(need.activations, replica.plan().activation_bytes());
  EXPECT_GE(4 * need.activations, replica.plan().activation_bytes());
  EXPECT_EQ(need_of(run_with("accumulate = 2\n"), {}).state, replica.state_bytes());
}

// Two convolutions read a wide value: a host's kernels make the second gradient of it apart, beside
// the value and the first one, where a GPU's add to that.
TEST(DeviceMemoryNeed, HasNoTemporariesOfAHost) {
  const TemporaryFolder folder;
  std::ofstream(folder / "fork.toml") << R"(node = [
  {name = "wide", op = "conv2d", out = 64, kernel = 3, padding = 1},
  {name = "left", op = "conv2d", out = 1, kernel = 3, padding = 1},
  {name = "right", op = "conv2d", out = 1, kernel = 3, padding = 1, from = "wide"},
  {name = "sum", op = "add", from = ["left", "right"]},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"}])";
  RunConfig config = run_with("");
  config.model = (folder / "fork.toml").string();
  const RunMemoryNeed device = need_of(config, {.processes = 2});
  const RunMemoryNeed host = least_host_memory(config, {.processes = 2}).value();
  EXPECT_EQ(device.batch, host.batch);
  EXPECT_EQ(device.state, host.state);
  EXPECT_EQ(device.shared, host.shared);
  const std::size_t wide = 8 * 64 * (8 * 8) * sizeof(float);
  EXPECT_GE(device.activations, 2 * wide);
  EXPECT_LT(device.activations, 3 * wide);
  EXPECT_GE(host.activations, 3 * wide);
}

TEST(DeviceMemoryNeed, HasTheStateOfADeviceOnceWhereItIsShared) {
  const RunMemoryNeed apart = need_of(run_with(""), {.processes = 1, .devices = 4});
  const RunMemoryNeed shared = need_of(run_with(""), {.processes = 4});
  EXPECT_EQ(shared.batch, 4);
  EXPECT_EQ(apart.batch, 4);
  EXPECT_EQ(apart.activations, shared.activations);
  EXPECT_EQ(shared.shared + shared.state, apart.state);
  const std::size_t statistics = statistics_bytes();
  EXPECT_EQ(3 * (shared.state - statistics), apart.state - statistics)
      << "gradients, of values, gradients and momentum";
  EXPECT_EQ(shared.bytes(), shared.shared + 4 * (shared.state + shared.activations));
  EXPECT_EQ(need_of(run_with("accumulate = 2\n"), {.processes = 2, .devices = 2}).batch, 2);
}

TEST(DeviceMemoryNeed, CountsRoundedWeightsAndHalvedActivations) {
  const RunMemoryNeed fp32 = need_of(run_with(""), {.processes = 2});
  const RunMemoryNeed bf16 = need_of(run_with("precision = 'bf16'\n"), {.processes = 2});
  EXPECT_EQ(bf16.state, fp32.state) << "gradients stay in f32";
  // Of values and momentum, the values once more, of half the size.
  EXPECT_EQ(4 * bf16.shared, 5 * fp32.shared);
  EXPECT_LT(bf16.activations, fp32.activations * 6 / 10);
}

TEST(DeviceMemoryNeed, SaysWhatIsNeededWhatIsThereAndWhatFits) {
  const RunConfig config = run_with("");
  const std::size_t eight = need_of(config, {.processes = 8}).bytes();
  const auto message = [&](const DevicePlaces& places, std::size_t bytes) {
    return message_of<InputError>(
        [&] { require_device_memory(config, places, {.name = "GPU-a (H200)", .bytes = bytes}); });
  };
  EXPECT_NO_THROW(require_device_memory(config, {.processes = 8}, {.name = "", .bytes = eight}));
  EXPECT_NO_THROW(require_device_memory(config, {.processes = 3}, {.name = "", .bytes = 1}))
      << "the ranks tell of a batch that cannot be dealt";
  const std::string fewer = message({.processes = 8}, eight - 1);
  for (const char* part :
       {"training does not fit the memory of GPU-a (H200): each of 8 ranks needs at least ",
        " of activations for 2 samples at once and ", " of gradients, and all together ",
        " of parameters and optimizer state; ", " in all, of ",
        "; at most 4 ranks fit with the same train.global_batch: lower --ranks-per-gpu"}) {
    EXPECT_NE(fewer.find(part), std::string::npos) << fewer << "\nwanted: " << part;
  }
  EXPECT_EQ(fewer.find('\n'), std::string::npos);
  const std::string none = message({}, 1000);
  EXPECT_TRUE(
      none.starts_with("training does not fit the memory of GPU-a (H200): it needs at "
                       "least "))
      << none;
  EXPECT_TRUE(none.ends_with(
      " in all, of 1000 B that it has; hardly one sample fits: use a smaller model, or "
      "lower data.size"))
      << none;
}

// Each of the ranks that share a GPU, or the only one; no fewer ranks would do.
TEST(DeviceMemoryNeed, SaysHowManySamplesFit) {
  for (const DevicePlaces& places : {DevicePlaces{}, DevicePlaces{.processes = 2}}) {
    RunConfig large = run_with("");
    large.global_batch = 1000;
    RunConfig small = large;
    small.accumulate = 2;
    const std::size_t room = need_of(small, places).bytes() / 9 * 10;
    const std::string message = message_of<InputError>(
        [&] { require_device_memory(large, places, {.name = "GPU-a (H200)", .bytes = room}); });
    const std::string about = " that it has; about ";
    const std::size_t at = message.find(about);
    ASSERT_NE(at, std::string::npos) << message;
    const double samples = std::stod(message.substr(at + about.size()));
    EXPECT_NEAR(samples, 500.0 / places.processes, 0.03 * 500 / places.processes);
    const std::string where = places.processes > 1 ? " in each process" : "";
    EXPECT_TRUE(message.ends_with(" samples at once fit" + where +
                                  ": lower train.global_batch or data.size, or raise "
                                  "train.accumulate"))
        << message;
  }
}

}  // namespace
}  // namespace tandem
