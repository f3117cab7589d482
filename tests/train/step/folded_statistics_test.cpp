#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/model_file.h"
#include "parallel/self_communicator.h"
#include "train/small_run.h"
#include "train/step/replica.h"

namespace tandem {
namespace {

/// A replica of two ranks in this process.
class FoldedReplica {
 public:
  explicit FoldedReplica(const std::string& more = {})
      : config_(read_run_config(ConfigTable::from_text(
            small_run_text(more) + "[parallel]\nfolded_ranks = 2\n", "run.toml"))) {
    replica_.broadcast_from_root();
  }

  void step() {
    Batch batch;
    batch.images = Tensor(images_.data(), {16, 8, 8, 1});
    batch.labels = Tensor(labels_.data(), {16}, DType::i32);
    batch.valid = 16;
    const auto next = [&]() -> const Batch& { return batch; };
    EXPECT_TRUE(std::isfinite(replica_.step(next, 0.05F, false).sums.loss));
  }
  std::vector<float> statistics(std::int64_t rank) {
    const std::span<const float> values = store().buffer(0, rank).span<float>();
    return {values.begin(), values.end()};
  }
  ParameterStore& store() { return replica_.store(); }
  Replica& replica() { return replica_; }

 private:
  static std::vector<float> waves() {
    std::vector<float> values(16 * 8 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(0.7F * static_cast<float>(i)) + 0.001F * static_cast<float>(i);
    }
    return values;
  }

  std::vector<float> images_ = waves();
  std::vector<std::int32_t> labels_ = std::vector<std::int32_t>(16, 2);
  RunConfig config_;
  AnyContext context_{CpuContext(1)};
  SelfCommunicator self_;
  Replica replica_{config_,
                   load_model(find_model("resnet8"), {.classes = 4, .channels = 1, .size = 8}), 16,
                   context_, self_};
};

TEST(FoldedStatistics, AreEachRanksUntilAnEvaluation) {
  FoldedReplica folded;
  EXPECT_EQ(folded.store().ranks(), 2);
  EXPECT_EQ(folded.statistics(0), folded.statistics(1));
  folded.step();
  const std::vector<float> first = folded.statistics(0);
  EXPECT_NE(folded.statistics(1), first);
  folded.replica().prepare_evaluation();
  EXPECT_EQ(folded.statistics(0), first);
  EXPECT_EQ(folded.statistics(1), first);
  folded.step();
  EXPECT_NE(folded.statistics(1), folded.statistics(0));
}

TEST(FoldedStatistics, GoOnWithThoseThatWereRestored) {
  FoldedReplica folded;
  folded.step();
  std::ranges::fill(folded.store().buffer(0).span<float>(), 0.25F);
  EXPECT_NE(folded.statistics(1), folded.statistics(0));
  folded.replica().broadcast_from_root();
  EXPECT_EQ(folded.statistics(1), folded.statistics(0));
}

TEST(FoldedStatistics, AreTheSameWhereTheyAreOverAllRanks) {
  FoldedReplica folded("sync_batch_norm = true\n");
  EXPECT_EQ(folded.store().ranks(), 1);
  folded.step();
}

}  // namespace
}  // namespace tandem
