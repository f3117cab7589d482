#include "bench/ceilings.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(CeilingsTest, ACpuHasTheRatesOfWhatItComputesIn) {
  AnyContext context = CpuContext(1);
  const Ceilings ceilings = measure_ceilings(context);
  // Far apart from any machine's on both sides: a slip of a unit would show.
  ASSERT_TRUE(ceilings.bytes_per_second);
  EXPECT_GT(*ceilings.bytes_per_second, 1e8);
  EXPECT_LT(*ceilings.bytes_per_second, 1e12);
  ASSERT_TRUE(ceilings.operations(Precision::fp32));
  EXPECT_GT(*ceilings.operations(Precision::fp32), 1e8);
  EXPECT_LT(*ceilings.operations(Precision::fp32), 1e13);
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    EXPECT_FALSE(ceilings.operations(precision)) << name_of(precision);
  }
}

}  // namespace
}  // namespace tandem
