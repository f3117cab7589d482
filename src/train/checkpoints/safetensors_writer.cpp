#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "train/checkpoints/safetensors.h"
#include "train/checkpoints/safetensors_checksum.h"
#include "train/checkpoints/safetensors_dtypes.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

void check(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata) {
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    TANDEM_CHECK(!tensor.name.empty() && tensor.name != "__metadata__", "'{}' cannot name a tensor",
                 tensor.name);
    TANDEM_CHECK(names.insert(tensor.name).second, "two tensors are named '{}'", tensor.name);
    TANDEM_CHECK(tensor.data != nullptr || tensor.bytes() == 0, "tensor '{}' has no data",
                 tensor.name);
  }
  TANDEM_CHECK(!metadata.contains(std::string(safetensors_checksum_key)),
               "the metadata key '{}' belongs to the writer", safetensors_checksum_key);
}

/// An object's member by member: a value of the library's that holds many others asks for memory as
/// it is destroyed, and where it gets none ends the process.
class ObjectText {
 public:
  void add(const std::string& name, const nlohmann::ordered_json& value) {
    text_ += fmt::format("{}{}:{}", text_.empty() ? "{" : ",", nlohmann::ordered_json(name).dump(),
                         value.dump());
  }
  std::string end() && {
    if (text_.empty()) text_ = "{";
    text_ += '}';
    return std::move(text_);
  }

 private:
  std::string text_;
};

std::string header_of(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata) {
  std::string text;
  try {
    ObjectText header;
    if (!metadata.empty()) header.add("__metadata__", metadata);
    std::size_t offset = 0;
    for (const NamedTensor& tensor : tensors) {
      const std::size_t end = offset + tensor.bytes();
      header.add(tensor.name, {{"dtype", safetensors_name(tensor.dtype)},
                               {"shape", tensor.shape.extents()},
                               {"data_offsets", {offset, end}}});
      offset = end;
    }
    text = std::move(header).end();
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("a tensor's name or the metadata are not UTF-8: {}", error.what()));
  }
  // Padded with spaces, as the reference writer does, so that the data starts at a multiple of 8.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata, WriteChecksum checksum) {
  check(tensors, metadata);
  std::vector<NamedTensor> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  SafetensorsMetadata all = metadata;
  if (checksum == WriteChecksum::yes) {
    all[std::string(safetensors_checksum_key)] = safetensors_checksum(ordered, metadata);
  }
  const std::string header = header_of(ordered, all);
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{header.size()});

  AtomicFile file(path);
  file.write(length.data(), length.size());
  file.write(header);
  for (const NamedTensor& tensor : ordered) file.write(tensor.data, tensor.bytes());
  file.commit();
}

}  // namespace tandem
