#include "train/fitting_samples.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

std::int64_t found(std::int64_t most, std::int64_t too_many, std::int64_t step, int* asked) {
  return most_fitting_samples(too_many, step, [&](std::int64_t samples) {
    ++*asked;
    EXPECT_GT(samples, 0);
    EXPECT_LT(samples, too_many);
    EXPECT_EQ(samples % step, 0);
    return samples <= most;
  });
}

TEST(MostFittingSamples, AreFoundWithinAFiftieth) {
  for (const std::int64_t most : {0, 1, 2, 30, 63, 777, 1022, 1023}) {
    int asked = 0;
    const std::int64_t samples = found(most, 1024, 1, &asked);
    EXPECT_LE(samples, most);
    EXPECT_GE(samples, most - most / 50);
    EXPECT_LE(asked, 10);
  }
}

TEST(MostFittingSamples, AreWholeStepsOfThem) {
  int asked = 0;
  EXPECT_EQ(found(15, 16, 4, &asked), 12);
  EXPECT_EQ(found(3, 16, 4, &asked), 0);
  EXPECT_EQ(found(5, 6, 4, &asked), 4) << "of steps that begin below";
}

TEST(MostFittingSamples, AreNoneWhereOneIsTooMany) {
  int asked = 0;
  EXPECT_EQ(found(0, 1, 1, &asked), 0);
  EXPECT_EQ(asked, 0);
}

TEST(FittingPart, IsInProportionAndFewerThanDoNotFit) {
  EXPECT_EQ(fitting_part(1000, 1, 400, 100), 250);
  EXPECT_EQ(fitting_part(1000, 4, 400, 100), 248);
  EXPECT_EQ(fitting_part(1000, 1, 400, 500), 999);
  EXPECT_EQ(fitting_part(1000, 1, 400, 0), 0);
  EXPECT_EQ(fitting_part(1000, 1, 0, 100), 0) << "nothing is known of what samples take";
}

TEST(FittingSamplesText, SaysWhatToDo) {
  EXPECT_EQ(fitting_samples_text(12, 1, false),
            "; about 12 samples at once fit: lower train.global_batch or data.size, or raise "
            "train.accumulate");
  EXPECT_EQ(fitting_samples_text(1, 1, true),
            "; about 1 sample at once fits in each process: lower train.global_batch or data.size, "
            "or raise train.accumulate");
  EXPECT_EQ(fitting_samples_text(12, 1, true, "set train.eval_batch"),
            "; about 12 samples at once fit in each process: set train.eval_batch");
  EXPECT_EQ(fitting_samples_text(0, 1, false),
            "; hardly one sample fits: use a smaller model, or lower data.size");
  EXPECT_EQ(fitting_samples_text(0, 1, true),
            "; hardly one sample fits in each process: use a smaller model, fewer processes with a "
            "smaller batch, or lower data.size");
  EXPECT_EQ(
      fitting_samples_text(0, 4, false),
      "; hardly 4 samples, one a folded rank, fit: use a smaller model, fewer folded ranks, or "
      "lower data.size");
}

}  // namespace
}  // namespace tandem
