#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace tandem {

/// The format's names of the element types that Tandem has.
inline constexpr std::array<std::pair<DType, std::string_view>, 6> safetensors_dtypes{{
    {DType::f32, "F32"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::u8, "U8"},
    {DType::i32, "I32"},
    {DType::i64, "I64"},
}};

constexpr std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, name] : safetensors_dtypes) {
    if (known == dtype) return name;
  }
  return "?";
}

constexpr std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const auto& [dtype, known] : safetensors_dtypes) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace tandem
