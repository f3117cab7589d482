#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoints/safetensors.h"

namespace tandem {

/// What the front of a safetensors file says, verified: tensors cover `data` exactly, in order and
/// without gap or overlap.
struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<NamedTensor> tensors;
};

/// Reads and verifies the header of a file's bytes; `path` is for messages. Tensors point into
/// `file`. Allocates in proportion to the header's true length. Throws InputError.
SafetensorsHeader read_safetensors_header(std::span<const std::byte> file,
                                          const std::filesystem::path& path);

}  // namespace tandem
