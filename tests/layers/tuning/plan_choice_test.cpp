#include "layers/tuning/plan_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "layers/tuning/trial_operand.h"

namespace tandem {
namespace {

constexpr ResultFindings right{.checksum = 5, .largest_difference = 0.01F, .largest_value = 2.0F};

TEST(PlanFault, NoneWhereRoundingAloneDiffers) {
  EXPECT_EQ(fault_of(right, right, 0.01F), "");
  // Zero everywhere, as a gradient may be.
  EXPECT_EQ(fault_of({.checksum = 1}, {.checksum = 1}, 0.01F), "");
}

TEST(PlanFault, ValuesThatAreNotFiniteInEitherRun) {
  ResultFindings holes = right;
  holes.not_finite = 12;
  EXPECT_EQ(fault_of(holes, right, 0.01F), "12 values are not finite");
  EXPECT_EQ(fault_of(right, holes, 0.01F), "12 values are not finite");
}

TEST(PlanFault, ValuesFarFromTheDefinition) {
  ResultFindings far = right;
  far.largest_difference = 0.5F;
  const std::string text = "a value is 0.5 from the definition, whose largest is 2";
  EXPECT_EQ(fault_of(far, right, 0.01F), text);
  EXPECT_EQ(fault_of(right, far, 0.01F), text);
  far.largest_difference = std::numeric_limits<float>::infinity();
  EXPECT_NE(fault_of(far, far, 0.01F), "");
  far.largest_difference = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(fault_of(far, far, 0.01F), "");
}

TEST(PlanFault, RunsThatDiffer) {
  ResultFindings other = right;
  other.checksum = 6;
  EXPECT_EQ(fault_of(right, other, 0.01F), "two runs differ");
}

TEST(PlanFault, ToleranceLeavesRoomForRoundingOfTheDtype) {
  // Half a unit in the last place of the largest value, and of the operands of tf32.
  EXPECT_GT(result_tolerance(Precision::bf16), 4 * 0x1p-9F);
  EXPECT_GT(result_tolerance(Precision::fp16), 4 * 0x1p-12F);
  EXPECT_GT(result_tolerance(Precision::tf32), 4 * 0x1p-11F);
  EXPECT_GT(result_tolerance(Precision::fp32), 4 * 0x1p-24F);
}

/// To so many significant bits.
float rounded(float value, int bits) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}
float cut_off(float value, int bits) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(std::trunc(std::ldexp(fraction, bits)), exponent - bits);
}

/// Significant bits of operands and results.
int bits_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return 8;
    case Precision::fp16:
      return 11;
    default:
      return 24;
  }
}

/// What a check finds in a kernel's results, by numbers as PlanTrial has them on the device: sums
/// of `terms` products, each added to an addend.
struct TriedSums {
  TriedSums(Precision precision, std::int64_t terms) {
    constexpr std::int64_t samples = 2048;
    constexpr std::int64_t tile = 16;
    const int bits = bits_of(precision);
    const float scale = scale_beside_sums(terms);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      float definition = 0.0F;
      float sum = 0.0F;
      float first_tile = 0.0F;
      for (std::int64_t begin = 0; begin < terms; begin += tile) {
        float part = 0.0F;
        for (std::int64_t i = begin; i < std::min(begin + tile, terms); ++i) {
          const float a = rounded(trial_operand(sample * terms + i, 1, 1.0F), bits);
          const float b = rounded(trial_operand(sample * terms + i, 2, 1.0F), bits);
          definition += a * b;
          part += precision == Precision::tf32 ? cut_off(a, 11) * cut_off(b, 11) : a * b;
        }
        sum += part;
        if (begin == 0) first_tile = part;
      }
      const float addend = rounded(trial_operand(sample, 3, scale), bits);
      const auto add = [&](std::optional<float> to, float value) {
        return rounded(to.value_or(0.0F) + rounded(value, bits), bits);
      };
      look(right, add(addend, sum), addend + definition);
      look(without_addend, add({}, sum), addend + definition);
      look(without_tile, add(addend, sum - first_tile), addend + definition);
      look(product, add({}, sum), definition);
      look(product_without_tile, add({}, sum - first_tile), definition);
    }
  }
  static void look(ResultFindings& findings, float value, float wanted) {
    findings.largest_value = std::max(findings.largest_value, std::fabs(wanted));
    findings.largest_difference = std::max(findings.largest_difference, std::fabs(value - wanted));
  }

  ResultFindings right, without_addend, without_tile, product, product_without_tile;
};

TEST(PlanFault, ToleranceTellsRoundingFromAPartThatIsLeftOut) {
  for (const auto precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    const float tolerance = result_tolerance(precision);
    for (const std::int64_t terms : {16, 27, 64, 576, 1152, 2304, 4608}) {
      SCOPED_TRACE(std::string(name_of(precision)) + ", " + std::to_string(terms) + " terms");
      const TriedSums tried(precision, terms);
      // With as much room again, both ways.
      for (const ResultFindings& found : {tried.right, tried.product}) {
        EXPECT_EQ(fault_of(found, found, tolerance / 2), "");
      }
      for (const ResultFindings& found :
           {tried.without_addend, tried.without_tile, tried.product_without_tile}) {
        EXPECT_NE(fault_of(found, found, tolerance * 2), "");
      }
    }
  }
}

/// Candidates with made-up times and results, and which of them were looked at.
class Candidates {
 public:
  void add(const std::string& name, std::optional<float> ms, ResultFindings found = right) {
    candidates_.push_back({.name = name,
                           .time =
                               [this, ms](float best) {
                                 bests_.push_back(best);
                                 return ms;
                               },
                           .fault =
                               [this, name, found] {
                                 looked_at_.push_back(name);
                                 return fault_of(found, found, 0.01F);
                               }});
  }
  std::string chosen() const { return fastest_right("conv forward n8", candidates_).name; }
  const std::vector<PlanCandidate>& all() const { return candidates_; }
  const std::vector<std::string>& looked_at() const { return looked_at_; }
  const std::vector<float>& bests() const { return bests_; }

 private:
  std::vector<PlanCandidate> candidates_;
  std::vector<std::string> looked_at_;
  std::vector<float> bests_;
};

constexpr ResultFindings wrong{.largest_difference = 1.0F, .largest_value = 2.0F};
constexpr ResultFindings holes{.not_finite = 3, .largest_value = 2.0F};
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(FastestRight, TakesTheFastestAndLooksOnlyAtThoseThatWouldWin) {
  Candidates some;
  some.add("a", 3.0F);
  some.add("slower", 4.0F, wrong);
  some.add("b", 1.0F);
  some.add("c", 2.0F);
  EXPECT_EQ(some.chosen(), "b");
  EXPECT_EQ(some.looked_at(), (std::vector<std::string>{"a", "b"}));
}

TEST(FastestRight, RefusesTheFastThatAreWrongOrLeaveNaN) {
  Candidates some;
  some.add("wrong", 1.0F, wrong);
  some.add("right", 3.0F);
  some.add("holes", 2.0F, holes);
  EXPECT_EQ(some.chosen(), "right");
  EXPECT_EQ(some.looked_at(), (std::vector<std::string>{"wrong", "right", "holes"}));
  // What is refused is no reason to time the others roughly.
  EXPECT_EQ(some.bests(), (std::vector<float>{infinity, infinity, 3.0F}));
}

TEST(FastestRight, TakesTheFirstOfEquals) {
  Candidates some;
  some.add("wrong", 1.0F, wrong);
  some.add("first", 1.0F);
  some.add("second", 1.0F);
  EXPECT_EQ(some.chosen(), "first");
}

TEST(FastestRight, PassesOverWhatDoesNotRun) {
  Candidates some;
  some.add("refused by the library", std::nullopt);
  EXPECT_EQ(some.chosen(), "");
  EXPECT_EQ(why_none(fastest_right("conv forward n8", some.all())), "none runs here");
  some.add("right", 3.0F);
  EXPECT_EQ(some.chosen(), "right");
  EXPECT_EQ(Candidates().chosen(), "");
}

TEST(FastestRight, TakesNoneWhereAllThatRunAreWrong) {
  Candidates some;
  some.add("refused by the library", std::nullopt);
  some.add("eng1", 1.0F, holes);
  some.add("eng2", 2.0F, wrong);
  const PlanChoice choice = fastest_right("conv forward n8", some.all());
  EXPECT_EQ(choice.name, "");
  EXPECT_EQ(why_none(choice),
            "none computes rightly here (the last, eng2: a value is 1 from the definition, whose "
            "largest is 2); another share of the GPU, or another version of cuDNN or cuBLAS, may "
            "have one that does");
}

TEST(FirstRight, TakesTheFirstThatIsRightAndTimesNone) {
  Candidates some;
  some.add("wrong", 1.0F, wrong);
  some.add("right", 3.0F);
  some.add("faster", 2.0F);
  EXPECT_EQ(first_right("conv forward n8", some.all()).name, "right");
  EXPECT_EQ(some.looked_at(), (std::vector<std::string>{"wrong", "right"}));
  EXPECT_TRUE(some.bests().empty());
}

TEST(FirstRight, TakesNoneWhereAllAreWrong) {
  Candidates some;
  some.add("eng1", 1.0F, wrong);
  some.add("eng2", 2.0F, holes);
  const PlanChoice choice = first_right("conv forward n8", some.all());
  EXPECT_EQ(choice.name, "");
  EXPECT_EQ(choice.refused, "eng2: 3 values are not finite");
}

}  // namespace
}  // namespace tandem
