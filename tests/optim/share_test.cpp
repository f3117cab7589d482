#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "optim/adamw.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "optim/small_arena.h"
#include "optim/update_blocks.h"

// Optimizers that each update their share of one arena, with one state between them.

namespace tandem {
namespace {

std::int64_t sum_of_elements(const std::vector<ParameterGroupSlice>& parts) {
  std::int64_t sum = 0;
  for (const ParameterGroupSlice& part : parts) sum += part.elements;
  return sum;
}

TEST(SlicesWithin, KeepWhatLiesInTheShareAsItIs) {
  EXPECT_TRUE(slices_within(slices, 35025, 15).empty());
  const std::vector<ParameterGroupSlice> parts = slices_within(slices, 35000, 15);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].offset, 35000);
  EXPECT_EQ(parts[0].elements, 1);
  EXPECT_EQ(parts[0].weight_decay, 5e-4F);
  EXPECT_EQ(parts[1].offset, 35008);
  EXPECT_EQ(parts[1].elements, 7);
  EXPECT_FALSE(parts[1].adapt);
  EXPECT_EQ(sum_of_elements(slices_within(slices, 0, 17)) +
                sum_of_elements(slices_within(slices, 17, arena_elements - 17)),
            sum_of_elements(slices));
}

/// Expects the same bits of one optimizer and of two that share arena and state. `make` makes one
/// of given slices.
template <typename Make>
void expect_shares_to_be_the_whole(const Make& make) {
  AnyContext context = CpuContext(2);
  std::vector<float> whole = random_values("parameters");
  std::vector<float> shared = whole;
  const std::unique_ptr<Optimizer> alone = make(context, slices);
  std::vector<Arena> memory;
  for (const OptimizerState& state : alone->state()) {
    memory.emplace_back(context, state.tensor.bytes(), "shared state");
  }
  std::vector<std::unique_ptr<Optimizer>> members;
  constexpr std::int64_t cut = 20'000;
  for (const auto& [offset, elements] :
       {std::pair{std::int64_t{0}, cut}, {cut, arena_elements - cut}}) {
    members.push_back(make(context, slices_within(slices, offset, elements)));
    std::size_t next = 0;
    members.back()->place_state([&](std::size_t bytes) {
      EXPECT_EQ(bytes, memory[next].bytes());
      return Arena::borrowed(memory[next++].data(), bytes);
    });
    EXPECT_EQ(next, memory.size());
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<float> gradients = random_values("gradients " + std::to_string(step));
    const UpdateSettings settings{.learning_rate = 0.1F};
    alone->step(view(whole), view(gradients), settings);
    for (const auto& member : members) member->step(view(shared), view(gradients), settings);
  }
  EXPECT_EQ(shared, whole);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Tensor one = alone->state()[i].tensor;
    const Tensor two = members[1]->state()[i].tensor;
    EXPECT_EQ(std::vector<float>(one.span<float>().begin(), one.span<float>().end()),
              std::vector<float>(two.span<float>().begin(), two.span<float>().end()));
  }
}

/// As expect_shares_to_be_the_whole(), of one optimizer that updates its slices in two parts.
template <typename Make>
void expect_parts_to_be_the_whole(const Make& make) {
  AnyContext context = CpuContext(2);
  std::vector<float> whole = random_values("parameters");
  std::vector<float> parts = whole;
  constexpr std::int64_t cut = 20'000;
  std::vector<ParameterGroupSlice> groups = slices_within(slices, 0, cut);
  const std::vector<ParameterGroupSlice> others = slices_within(slices, cut, arena_elements - cut);
  groups.insert(groups.end(), others.begin(), others.end());
  const std::unique_ptr<Optimizer> alone = make(context, slices);
  const std::unique_ptr<Optimizer> in_parts = make(context, groups);
  for (int step = 0; step < 3; ++step) {
    std::vector<float> gradients = random_values("gradients " + std::to_string(step));
    alone->step(view(whole), view(gradients), {.learning_rate = 0.1F});
    in_parts->enqueue(view(parts), view(gradients), {.learning_rate = 0.1F, .end = cut});
    const std::vector<float> before(parts.begin() + cut, parts.end());
    in_parts->enqueue(view(parts), view(gradients), {.learning_rate = 0.1F, .begin = cut});
    EXPECT_NE(std::vector<float>(parts.begin() + cut, parts.end()), before);
    in_parts->count_step();
    EXPECT_EQ(parts, whole);
    // With gradients of each part alone.
    alone->step(view(whole), view(gradients), {.learning_rate = 0.1F});
    const Tensor first(gradients.data(), {cut});
    const Tensor rest(gradients.data() + cut, {arena_elements - cut});
    in_parts->enqueue(view(parts), rest, {.learning_rate = 0.1F, .begin = cut});
    in_parts->enqueue(view(parts), first, {.learning_rate = 0.1F, .begin = 0, .end = cut});
    in_parts->count_step();
    EXPECT_EQ(parts, whole);
    EXPECT_THROW(in_parts->enqueue(view(parts), first, {.begin = cut, .end = cut + 8}), Error);
    EXPECT_THROW(in_parts->enqueue(view(parts), first, {}), Error);
  }
  EXPECT_THROW(in_parts->enqueue(view(parts), view(whole), {.begin = cut + 1}), Error);
  EXPECT_THROW(in_parts->enqueue(view(parts), view(whole), {.end = cut - 1}), Error);
}

TEST(UpdateInParts, IsTheWhole) {
  expect_parts_to_be_the_whole([](AnyContext& context, const auto& groups) {
    return std::make_unique<Sgd>(context, arena_elements, groups, SgdOptions{.momentum = 0.9F});
  });
  expect_parts_to_be_the_whole([](AnyContext& context, const auto& groups) {
    return std::make_unique<AdamW>(context, arena_elements, groups, AdamWOptions{});
  });
}

TEST(UpdateInParts, IsNotForRulesThatLookAtWholeParameters) {
  AnyContext context = CpuContext(1);
  std::vector<float> values = random_values("parameters");
  Lars lars(context, arena_elements, slices, {});
  EXPECT_THROW(lars.step(view(values), view(values), {.begin = 1}), Error);
  EXPECT_THROW(lars.step(view(values), view(values), {.end = 20'000}), Error);
}

TEST(SharedUpdate, OfSgdIsTheWhole) {
  expect_shares_to_be_the_whole([](AnyContext& context, const auto& groups) {
    return std::make_unique<Sgd>(context, arena_elements, groups, SgdOptions{.momentum = 0.9F});
  });
}

TEST(SharedUpdate, OfSgdWithoutStateIsTheWhole) {
  expect_shares_to_be_the_whole([](AnyContext& context, const auto& groups) {
    return std::make_unique<Sgd>(context, arena_elements, groups, SgdOptions{});
  });
}

TEST(SharedUpdate, OfAdamWIsTheWhole) {
  expect_shares_to_be_the_whole([](AnyContext& context, const auto& groups) {
    return std::make_unique<AdamW>(context, arena_elements, groups, AdamWOptions{});
  });
}

}  // namespace
}  // namespace tandem
