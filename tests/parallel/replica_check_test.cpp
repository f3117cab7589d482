#include "parallel/replica_check.h"

#include <cmath>

#include "parallel/mpi_test.h"

namespace tandem {
namespace {

std::vector<PlanEntry> plan() {
  return {{"fc.bias", {10}, DType::f32, 0},
          {"fc.weight", {10, 64}, DType::f32, 0},
          {"conv1.weight", {64, 3, 3, 3}, DType::f32, 1},
          {"bn1.running_mean", {64}, DType::f32, -1}};
}

int last_rank() { return world().size() - 1; }

/// The message of check_same_plan, the same on all ranks, where the last rank has another plan.
std::string mismatch(const std::vector<PlanEntry>& other) {
  const std::vector<PlanEntry> mine = world().rank() == last_rank() ? other : plan();
  std::string message = without_rank(message_of<Error>([&] { check_same_plan(world(), mine); }));
  expect_same_everywhere(message);
  return message;
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(CheckSamePlan, AcceptsEqualPlansAndEmptyOnes) {
  EXPECT_NO_THROW(check_same_plan(world(), plan()));
  EXPECT_NO_THROW(check_same_plan(world(), {}));
}

TEST(CheckSamePlan, NamesTheFirstEntryThatDiffersAndTheRanks) {
  if (world().size() == 1) return;
  std::vector<PlanEntry> shape = plan();
  shape[1].shape = {10, 128};
  std::string message = mismatch(shape);
  expect_contains(message, "entry 1");
  expect_contains(message, "'fc.weight' 10x64 f32 in bucket 0");
  expect_contains(message, fmt::format("rank {} has 'fc.weight' 10x128", last_rank()));

  std::vector<PlanEntry> dtype = plan();
  dtype[2].dtype = DType::bf16;
  expect_contains(mismatch(dtype), "'conv1.weight' 64x3x3x3 bf16");

  std::vector<PlanEntry> bucket = plan();
  bucket[1].bucket = 1;
  expect_contains(mismatch(bucket), "'fc.weight' 10x64 f32 in bucket 1");

  std::vector<PlanEntry> name = plan();
  name[3].name = "bn1.running_var";
  expect_contains(mismatch(name), "'bn1.running_var'");

  std::vector<PlanEntry> shorter = plan();
  shorter.pop_back();
  message = mismatch(shorter);
  expect_contains(message, "entry 3");
  expect_contains(message, fmt::format("rank {} has nothing", last_rank()));
  expect_contains(mismatch({}), "entry 0");
}

TEST(CheckSamePlan, ListsTheRanksThatAgree) {
  if (world().size() != 4) return;
  std::vector<PlanEntry> mine = plan();
  if (world().rank() % 2 == 1) mine[0].shape = {11};
  const std::string message = message_of<Error>([&] { check_same_plan(world(), mine); });
  expect_contains(message, "ranks 0 and 2 have 'fc.bias' 10 f32");
  expect_contains(message, "ranks 1 and 3 have 'fc.bias' 11 f32");
}

const std::vector<ParameterSlice> slices{{"fc.bias", 0, 10}, {"fc.weight", 16, 640}};

void check(std::vector<float>& arena, std::span<const ParameterSlice> parameters) {
  AnyContext context(std::in_place_type<CpuContext>, 1);
  check_replicas(world(), hash_slices(context, view(arena), parameters), parameters);
}

std::string replica_message(std::vector<float>& arena) {
  std::string message = without_rank(message_of<Error>([&] { check(arena, slices); }));
  expect_same_everywhere(message);
  return message;
}

TEST(CheckReplicas, AcceptsEqualBits) {
  std::vector<float> arena(656, 0.25F);
  EXPECT_NO_THROW(check(arena, slices));
  std::vector<float> nothing;
  EXPECT_NO_THROW(check(nothing, {}));
}

TEST(CheckReplicas, NamesTheParameterAndTheRanks) {
  if (world().size() == 1) return;
  std::vector<float> arena(656, 0.25F);
  // One bit of the last element on the last rank.
  if (world().rank() == last_rank()) arena[655] = std::nextafter(0.25F, 1.0F);
  expect_contains(replica_message(arena),
                  fmt::format("'fc.weight' on rank {} differs from rank 0's", last_rank()));
  // The first differing parameter is named where several differ; -0 and +0 are different bits.
  arena[3] = world().rank() == 0 ? 0.0F : -0.0F;
  expect_contains(replica_message(arena), "'fc.bias' on rank");
}

TEST(CheckReplicas, TellsPaddingFromParameters) {
  if (world().size() == 1) return;
  std::vector<float> arena(656, 0.25F);
  if (world().rank() == last_rank()) arena[12] = 1.0F;
  expect_contains(replica_message(arena),
                  fmt::format("padding between parameters on rank {}", last_rank()));
}

TEST(BroadcastState, GivesEveryRankTheRootsTensors) {
  for (int root = 0; root < world().size(); ++root) {
    std::vector<float> weights = contributions<float>(world().rank(), 1001);
    std::vector<std::int64_t> steps{100 + world().rank()};
    std::vector<float> none;
    const std::vector<Tensor> tensors{view(weights), view(steps), view(none)};
    broadcast_state(world(), tensors, root);
    EXPECT_EQ(weights, contributions<float>(root, 1001));
    EXPECT_EQ(steps[0], 100 + root);
  }
}

}  // namespace
}  // namespace tandem
