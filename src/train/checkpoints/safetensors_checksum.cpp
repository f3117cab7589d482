#include "train/checkpoints/safetensors_checksum.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "base/file_work.h"

namespace tandem {

std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t crc) {
  // By parts, since the bytes may be mapped from a file. (None at all: zlib takes a null pointer
  // for a request to start over.)
  constexpr std::size_t part = std::size_t{8} << 20U;
  const auto* at = static_cast<const Bytef*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t now = std::min(left, part);
    crc = static_cast<std::uint32_t>(::crc32_z(crc, at, static_cast<z_size_t>(now)));
    file_moved();
    at += now;
    left -= now;
  }
  return crc;
}

std::string safetensors_checksum(std::span<const NamedTensor> tensors,
                                 const SafetensorsMetadata& metadata) {
  std::string description;
  // Lengths before texts, so that no two descriptions read alike.
  const auto add = [&description](std::string_view text) {
    description += fmt::format("{}:{}", text.size(), text);
  };
  for (const auto& [key, value] : metadata) {
    if (key == safetensors_checksum_key) continue;
    add(key);
    add(value);
  }
  for (const NamedTensor& tensor : tensors) {
    add(tensor.name);
    add(name_of(tensor.dtype));
    add(tensor.shape.text());
  }
  std::uint32_t crc = crc32(description.data(), description.size());
  for (const NamedTensor& tensor : tensors) crc = crc32(tensor.data, tensor.bytes(), crc);
  return fmt::format("{:08x}", crc);
}

}  // namespace tandem
