#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/message.h"

namespace tandem {
namespace {

TEST(Tensor, ViewsMemoryThatItDoesNotOwn) {
  std::vector<float> values(6);
  const Tensor tensor(values.data(), {2, 3});
  EXPECT_TRUE(tensor.defined());
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(tensor.elements(), 6);
  EXPECT_EQ(tensor.bytes(), 24U);
  const Tensor copy = tensor;
  copy.data<float>()[5] = 7.0F;
  EXPECT_EQ(values[5], 7.0F);
  EXPECT_EQ(tensor.span<float>().size(), 6U);
}

TEST(Tensor, ChecksTheElementType) {
  std::vector<std::int32_t> values(4);
  const Tensor tensor(values.data(), {4}, DType::i32);
  EXPECT_NO_THROW(tensor.data<std::int32_t>());
  const std::string message = message_of<Error>([&] { tensor.data<float>(); });
  EXPECT_EQ(message.rfind("a i32 tensor read as f32", 0), 0U) << message;
}

TEST(DType, KnowsSizesAndNames) {
  EXPECT_EQ(size_of(DType::f32), 4U);
  EXPECT_EQ(size_of(DType::f16), 2U);
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(size_of(DType::u8), 1U);
  EXPECT_EQ(size_of(DType::i32), 4U);
  EXPECT_EQ(size_of(DType::i64), 8U);
  EXPECT_EQ(name_of(DType::bf16), "bf16");
}

}  // namespace
}  // namespace tandem
