#include "train/safetensors_checksum.h"

#include <fmt/format.h>
#include <zlib.h>

namespace tandem {

std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t crc) {
  // zlib takes a null pointer for a request to start over.
  if (bytes == 0) return crc;
  return static_cast<std::uint32_t>(
      ::crc32_z(crc, static_cast<const Bytef*>(data), static_cast<z_size_t>(bytes)));
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
