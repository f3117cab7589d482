#include "data/jpeg/exif.h"

#include <algorithm>
#include <array>
#include <optional>

namespace tandem {
namespace {

/// The TIFF part, read in its own byte order; a read beyond the end gives nothing.
class TiffReader {
 public:
  TiffReader(std::span<const std::uint8_t> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> u16(std::size_t at) const { return number(at, 2); }
  std::optional<std::uint32_t> u32(std::size_t at) const { return number(at, 4); }

 private:
  std::optional<std::uint32_t> number(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || bytes_.size() - at < width) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value = value << 8 | bytes_[at + (big_endian_ ? i : width - 1 - i)];
    }
    return value;
  }

  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

constexpr std::uint32_t orientation_tag = 0x0112;
constexpr std::uint32_t short_type = 3;
constexpr std::size_t entry_bytes = 12;

}  // namespace

int exif_orientation(std::span<const std::uint8_t> payload) {
  constexpr std::array<std::uint8_t, 6> signature{'E', 'x', 'i', 'f', 0, 0};
  if (payload.size() < signature.size() + 8 ||
      !std::equal(signature.begin(), signature.end(), payload.begin())) {
    return 1;
  }
  const auto tiff = payload.subspan(signature.size());
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  const bool little_endian = tiff[0] == 'I' && tiff[1] == 'I';
  const TiffReader read(tiff, big_endian);
  if ((!big_endian && !little_endian) || read.u16(2) != 42U) return 1;
  const std::size_t directory = *read.u32(4);
  const std::uint32_t entries = read.u16(directory).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * entry_bytes;
    const auto tag = read.u16(entry);
    if (!tag) return 1;
    if (*tag != orientation_tag) continue;
    const std::uint32_t value = read.u16(entry + 8).value_or(0);
    const bool good =
        read.u16(entry + 2) == short_type && read.u32(entry + 4) == 1U && value >= 1 && value <= 8;
    return good ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace tandem
