#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "train/checkpoints/mapped_file.h"

namespace tandem {

/// A tensor of a file: elements dense, the last extent fastest, little-endian. Nothing is owned.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  const void* data = nullptr;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

/// Text beside the tensors (`__metadata__`).
using SafetensorsMetadata = std::map<std::string, std::string>;

/// The metadata key that holds the checksum, eight hexadecimal digits.
inline constexpr std::string_view safetensors_checksum_key = "crc32";

/// What a writer does about the checksum.
enum class WriteChecksum { no, yes };

/// What a reader does about the checksum: verify it where it is present, or demand that it is.
enum class ReadChecksum { if_present, required };

/// Writes `tensors` as a safetensors file (https://github.com/huggingface/safetensors), whole or
/// not at all (AtomicFile). The data is streamed from where it lies. The format has no gaps, so
/// tensors are laid out by falling element size, otherwise in the given order: the data section
/// starts at a multiple of eight bytes and every tensor at a multiple of its element's size.
///
/// With WriteChecksum::yes the metadata gain "crc32": the CRC-32 of metadata, names, dtypes, shapes
/// and all data. Throws Error for doubled or empty names or a name or text that is not UTF-8,
/// InputError where the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = {},
                       WriteChecksum checksum = WriteChecksum::no);

/// An open safetensors file. The whole structure (and the checksum) is verified on opening, so that
/// every tensor it hands out lies inside the file; what does not hold is an InputError with the
/// file, the tensor and what to do. Reads f32, f16, bf16, u8, i32 and i64 of rank at most six.
///
/// Tensors point into this object's mapping and die with it. In files of other writers their
/// addresses may be unaligned: copy bytes, do not cast.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path,
                           ReadChecksum checksum = ReadChecksum::if_present);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of their place in the file.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// nullptr where there is none of that name.
  const NamedTensor* find(std::string_view name) const;
  /// Throws InputError that names the nearest known tensor where there is none of that name.
  const NamedTensor& at(std::string_view name) const;

  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// Throws InputError where the file has no such text.
  const std::string& metadata_at(const std::string& key) const;

 private:
  void verify_checksum(ReadChecksum checksum) const;

  std::filesystem::path path_;
  MappedFile file_;
  SafetensorsMetadata metadata_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace tandem
