#include "data/datasets/idx_dataset.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/input_file.h"

namespace tandem {
namespace {

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         std::uint32_t{at[3]};
}

/// What a reader accepts, and its words for messages.
struct IdxKind {
  std::string_view what;
  std::string_view expected;
  int least_rank;
  int most_rank;
};
constexpr IdxKind image_kind{"images", "0x00000803 or 0x00000804 (bytes, 3 or 4 extents)", 3, 4};
constexpr IdxKind label_kind{"labels", "0x00000801 (bytes, 1 extent)", 1, 1};

struct IdxHeader {
  std::vector<std::uint64_t> extents;

  std::string text() const {
    std::string all;
    for (const std::uint64_t extent : extents) {
      all += fmt::format("{}{}", all.empty() ? "" : "x", extent);
    }
    return all;
  }
  std::uint64_t bytes() const { return 4 + 4 * std::uint64_t{extents.size()}; }
};

IdxHeader read_header(InputFile& file, const std::string& name, const IdxKind& kind) {
  std::array<std::uint8_t, 4> word{};
  const auto read_word = [&] {
    if (file.read(word) != word.size()) {
      input_error("{}: truncated inside the IDX header; fetch the file again", name);
    }
    return big_endian(word.data());
  };
  const std::uint32_t magic = read_word();
  const auto rank = static_cast<int>(magic & 0xffU);
  if (magic >> 8 != 0x08 || rank < kind.least_rank || rank > kind.most_rank) {
    input_error("{}: not an IDX file of {}: expected magic number {}, found 0x{:08x}", name,
                kind.what, kind.expected, magic);
  }
  IdxHeader header;
  for (int i = 0; i < rank; ++i) header.extents.push_back(read_word());
  for (const std::uint64_t extent : header.extents) {
    if (extent == 0) input_error("{}: the IDX header announces {}: no data", name, header.text());
  }
  return header;
}

/// The values after the header: exactly as many as it announces.
std::vector<std::uint8_t> read_values(InputFile& file, const std::string& name,
                                      const IdxHeader& header) {
  // Nothing is allocated for a header that the file cannot fill, and the product cannot overflow.
  const std::uint64_t most = file.most_bytes() - std::min(file.most_bytes(), header.bytes());
  std::uint64_t count = 1;
  for (const std::uint64_t extent : header.extents) {
    if (count > most / extent) {
      input_error("{}: truncated: the header announces {} bytes, found at most {}; fetch it again",
                  name, header.text(), format_count(static_cast<std::int64_t>(most)));
    }
    count *= extent;
  }
  std::vector<std::uint8_t> values(count);
  const std::size_t got = file.read(values);
  if (got != count) {
    input_error("{}: truncated: the header announces {} = {} bytes, found {}; fetch it again", name,
                header.text(), format_count(static_cast<std::int64_t>(count)),
                format_count(static_cast<std::int64_t>(got)));
  }
  std::array<std::uint8_t, 1> beyond{};
  if (file.read(beyond) != 0) {
    input_error("{}: the header announces {} = {} bytes, but more follow; fetch it again", name,
                header.text(), format_count(static_cast<std::int64_t>(count)));
  }
  return values;
}

IdxImageShape image_shape(const IdxHeader& header, const std::string& name) {
  constexpr std::uint64_t largest_side = 65535;
  const std::uint64_t channels = header.extents.size() == 4 ? header.extents[3] : 1;
  if (header.extents[1] > largest_side || header.extents[2] > largest_side) {
    input_error("{}: the IDX header announces {}: images are at most {} pixels high and wide", name,
                header.text(), largest_side);
  }
  if (channels != 1 && channels != 3) {
    input_error("{}: the IDX header announces {}: {} channels, where 1 or 3 can be used", name,
                header.text(), channels);
  }
  return {static_cast<std::int64_t>(header.extents[0]), static_cast<int>(header.extents[1]),
          static_cast<int>(header.extents[2]), static_cast<int>(channels)};
}

}  // namespace

std::vector<std::string> numbered_classes(int classes) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(classes));
  for (int i = 0; i < classes; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

IdxImageShape read_idx_image_shape(const std::filesystem::path& images) {
  InputFile file(images);
  return image_shape(read_header(file, images.string(), image_kind), images.string());
}

IdxDataset::IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels,
                       int classes)
    : images_file_(images.string()), classes_(classes) {
  const std::string labels_file = labels.string();
  {
    InputFile file(images);
    const IdxHeader header = read_header(file, images_file_, image_kind);
    shape_ = image_shape(header, images_file_);
    pixels_ = read_values(file, images_file_, header);
  }
  {
    InputFile file(labels);
    labels_ = read_values(file, labels_file, read_header(file, labels_file, label_kind));
  }
  if (labels_.size() != static_cast<std::size_t>(shape_.count)) {
    input_error("{}: {} labels, but {} has {} images; they belong to different sets", labels_file,
                format_count(static_cast<std::int64_t>(labels_.size())), images_file_,
                format_count(shape_.count));
  }
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i] >= classes_) {
      input_error(
          "{}, sample {}: label {} is out of range; {} classes have labels 0 to {}; look whether "
          "data.classes is right",
          labels_file, i, labels_[i], classes_, classes_ - 1);
    }
  }
}

std::int32_t IdxDataset::label(std::int64_t index) const {
  return labels_.at(static_cast<std::size_t>(index));
}

ImageView IdxDataset::view(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size(), "no sample {}", index);
  const std::ptrdiff_t row = std::ptrdiff_t{shape_.width} * shape_.channels;
  return {pixels_.data() + index * shape_.height * row, row, shape_.height, shape_.width,
          shape_.channels};
}

Image IdxDataset::load(std::int64_t index) const { return copy_of(view(index)); }

std::unique_ptr<ImageSource> IdxDataset::open(std::int64_t index) const {
  return std::make_unique<ImageInMemory>(view(index));
}

std::string IdxDataset::describe(std::int64_t index) const {
  return fmt::format("{}, sample {}", images_file_, index);
}

}  // namespace tandem
