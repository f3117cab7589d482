#include "layers/convolution/blocked_weights.h"

#include <gtest/gtest.h>

#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

struct Case {
  std::string name;
  WeightBlocks blocks;
  std::int64_t outputs, positions, inputs;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"rows_of_8", {.outputs = 8, .outputs_inside = true}, 24, 9, 16},
      {"rows_of_16", {.outputs = 16, .outputs_inside = true}, 32, 9, 40},
      {"rows_of_32", {.outputs = 32, .outputs_inside = true}, 64, 9, 48},
      {"rows_of_48", {.outputs = 48, .outputs_inside = true}, 96, 1, 16},
      {"rows_of_64", {.outputs = 64, .outputs_inside = true}, 128, 4, 64},
      {"eights", {.outputs = 8, .inputs = 8, .outputs_inside = true}, 24, 9, 40},
      {"sixteens", {.outputs = 16, .inputs = 16, .outputs_inside = true}, 48, 9, 32},
      {"eights_of_inputs", {.outputs = 8, .inputs = 8}, 16, 9, 24},
      {"sixteens_of_inputs", {.outputs = 16, .inputs = 16}, 32, 9, 48},
      {"inputs_outside", {.outputs = 16, .inputs = 16, .inputs_outside = true}, 32, 4, 48},
      {"both",
       {.outputs = 8, .inputs = 16, .outputs_inside = true, .inputs_outside = true},
       24,
       3,
       32},
  };
  return all;
}

/// (K, positions, C), no two alike.
std::vector<float> plain_weights(const Case& c) {
  std::vector<float> weights(static_cast<std::size_t>(c.outputs * c.positions * c.inputs));
  std::iota(weights.begin(), weights.end(), 1.0F);
  return weights;
}

/// What blocks hold, one after the other.
std::vector<float> blocked_weights(const Case& c, const std::vector<float>& plain) {
  const std::int64_t k_step = c.blocks.outputs;
  const std::int64_t c_step = c.blocks.inputs == 0 ? c.inputs : c.blocks.inputs;
  std::vector<float> blocked;
  const auto append = [&](std::int64_t k, std::int64_t p, std::int64_t in) {
    blocked.push_back(plain[static_cast<std::size_t>((k * c.positions + p) * c.inputs + in)]);
  };
  const auto append_block = [&](std::int64_t k, std::int64_t in) {
    for (std::int64_t p = 0; p < c.positions; ++p) {
      for (std::int64_t i = 0; i < k_step * c_step; ++i) {
        if (c.blocks.outputs_inside) {
          append(k + i % k_step, p, in + i / k_step);
        } else {
          append(k + i / c_step, p, in + i % c_step);
        }
      }
    }
  };
  if (c.blocks.inputs_outside) {
    for (std::int64_t in = 0; in < c.inputs; in += c_step) {
      for (std::int64_t k = 0; k < c.outputs; k += k_step) append_block(k, in);
    }
  } else {
    for (std::int64_t k = 0; k < c.outputs; k += k_step) {
      for (std::int64_t in = 0; in < c.inputs; in += c_step) append_block(k, in);
    }
  }
  return blocked;
}

class BlockedWeightsTest : public testing::TestWithParam<Case> {};

TEST_P(BlockedWeightsTest, AreMovedToTheirPlacesAndBack) {
  const Case& c = GetParam();
  const BlockedWeights weights(c.blocks, c.outputs, c.positions, c.inputs);
  const std::vector<float> plain = plain_weights(c);
  const std::vector<float> blocked = blocked_weights(c, plain);
  for (const int threads : {1, 2, 3}) {
    const CpuContext context(threads);
    std::vector<float> packed(blocked.size(), -1.0F);
    weights.pack(context, plain.data(), packed.data());
    EXPECT_EQ(packed, blocked) << threads << " threads";
    if (!weights.can_unpack()) continue;
    std::vector<float> unpacked(plain.size(), -1.0F);
    weights.unpack(context, blocked.data(), unpacked.data());
    EXPECT_EQ(unpacked, plain) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, BlockedWeightsTest, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(BlockedWeights, FitWhereBlocksComeOutEvenInTiles) {
  const WeightBlocks rows{.outputs = 16, .outputs_inside = true};
  EXPECT_TRUE(BlockedWeights::fits(rows, 64, 24));
  EXPECT_FALSE(BlockedWeights::fits(rows, 58, 24));
  EXPECT_FALSE(BlockedWeights::fits(rows, 64, 3));
  const WeightBlocks squares{.outputs = 16, .inputs = 16};
  EXPECT_TRUE(BlockedWeights::fits(squares, 16, 32));
  EXPECT_FALSE(BlockedWeights::fits(squares, 16, 24));
  EXPECT_THROW(BlockedWeights(squares, 16, 9, 24), Error);
}

TEST(BlockedWeights, OfInputsAreNotUnpacked) {
  const BlockedWeights weights({.outputs = 8, .inputs = 8}, 8, 1, 8);
  std::vector<float> memory(64);
  EXPECT_FALSE(weights.can_unpack());
  EXPECT_THROW(weights.unpack(CpuContext(1), memory.data(), memory.data()), Error);
}

}  // namespace
}  // namespace tandem
