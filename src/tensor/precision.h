#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace tandem {

/// What a plan computes in. Parameters, optimizer state, batch statistics and sums are f32 in all
/// of them; the CPU has fp32 alone.
enum class Precision : std::uint8_t {
  fp32,  ///< f32 activations, f32 products
  tf32,  ///< f32 activations; matrix products round their operands to 10 bits of mantissa
  bf16,  ///< bf16 activations and copies of the weights
  fp16   ///< f16 likewise; gradients are scaled against underflow
};

/// The element type of activations, their gradients and the weights that products read.
constexpr DType activation_dtype(Precision precision) {
  if (precision == Precision::bf16) return DType::bf16;
  return precision == Precision::fp16 ? DType::f16 : DType::f32;
}

/// "fp32", "tf32", ...
constexpr std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "?";
}

}  // namespace tandem
