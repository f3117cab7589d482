#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "train/checkpoints/safetensors.h"

namespace tandem {

/// CRC-32 (zlib's, polynomial 0xEDB88320) of `bytes` bytes, continuing from `crc`.
std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t crc = 0);

/// Eight hexadecimal digits: the CRC-32 of everything that a file means: metadata other than the
/// checksum itself, then each tensor's name, dtype and shape, then each tensor's data, tensors in
/// the order of the file. Independent of how the header is spelled.
std::string safetensors_checksum(std::span<const NamedTensor> tensors,
                                 const SafetensorsMetadata& metadata);

}  // namespace tandem
