#pragma once

#include <cstdint>

namespace tandem {

// GCC's and clang's portable vectors; a processor without the width gets several instructions.
using Byte16 = std::uint8_t __attribute__((vector_size(16)));
using Byte32 = std::uint8_t __attribute__((vector_size(32)));
using Short8 = std::uint16_t __attribute__((vector_size(16)));
using Short16 = std::uint16_t __attribute__((vector_size(32)));
using Int4 = std::int32_t __attribute__((vector_size(16)));
using Int8 = std::int32_t __attribute__((vector_size(32)));
using Word8 = std::uint32_t __attribute__((vector_size(32)));
using Float4 = float __attribute__((vector_size(16)));
using Float8 = float __attribute__((vector_size(32)));

}  // namespace tandem
