#include "data/datasets/cifar_dataset.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/file_work.h"
#include "data/input_file.h"

namespace tandem {
namespace {

constexpr int side = 32;
constexpr std::size_t plane = std::size_t{side} * side;
constexpr std::size_t pixel_bytes = 3 * plane;

/// The lines of the file of names, or nothing where it is missing or of another length.
std::vector<std::string> read_names(const std::filesystem::path& file, std::size_t classes) {
  file_in_hand(file);
  std::vector<std::string> names;
  std::ifstream stream(file);
  for (std::string line; names.size() <= classes && std::getline(stream, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (stream.bad()) input_error("{}: reading failed", file.string());
  return names.size() == classes ? names : std::vector<std::string>{};
}

}  // namespace

std::vector<std::filesystem::path> cifar_files(const std::filesystem::path& folder, CifarKind kind,
                                               bool train) {
  if (kind == CifarKind::cifar100) return {folder / (train ? "train.bin" : "test.bin")};
  if (!train) return {folder / "test_batch.bin"};
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  return files;
}

CifarDataset::CifarDataset(const std::vector<std::filesystem::path>& files, CifarKind kind)
    : kind_(kind) {
  TANDEM_CHECK(!files.empty(), "a CIFAR data set needs at least one file");
  std::uintmax_t bytes = 0;
  for (const std::filesystem::path& path : files) {
    std::error_code unknown;  // told where it is read
    if (const auto size = std::filesystem::file_size(path, unknown); !unknown) bytes += size;
  }
  pixels_.reserve(bytes);
  for (const std::filesystem::path& path : files) read(path);
  for (std::int64_t i = 0; i < size_; ++i) {
    if (label(i) >= classes()) {
      input_error(
          "{}: label {} is out of range; {} classes have labels 0 to {}; look whether "
          "data.kind is right, else fetch it again",
          describe(i), label(i), classes(), classes() - 1);
    }
  }
  names_ =
      read_names(files.front().parent_path() /
                     (kind == CifarKind::cifar10 ? "batches.meta.txt" : "fine_label_names.txt"),
                 static_cast<std::size_t>(classes()));
  if (names_.empty()) names_ = numbered_classes(classes());
}

void CifarDataset::read(const std::filesystem::path& path) {
  const std::size_t label_bytes = kind_ == CifarKind::cifar10 ? 1 : 2;
  const std::size_t record_bytes = label_bytes + pixel_bytes;
  files_.push_back({path.string(), size_});
  const std::vector<std::uint8_t> records = read_whole_file(path);
  if (records.empty()) input_error("{}: the file is empty; fetch it again", path.string());
  if (records.size() % record_bytes != 0) {
    input_error(
        "{}: expected a multiple of {} bytes ({} records), found {}; look whether data.kind is "
        "right, else fetch it again",
        path.string(), record_bytes, kind_ == CifarKind::cifar10 ? "CIFAR-10" : "CIFAR-100",
        records.size());
  }
  const std::size_t count = records.size() / record_bytes;
  std::size_t at = pixels_.size();
  pixels_.resize(at + count * pixel_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* record = &records[i * record_bytes];
    labels_.push_back(record[label_bytes - 1]);
    const std::uint8_t* planes = record + label_bytes;
    for (std::size_t p = 0; p < plane; ++p) {
      for (std::size_t c = 0; c < 3; ++c) pixels_[at++] = planes[c * plane + p];
    }
  }
  size_ = static_cast<std::int64_t>(labels_.size());
}

std::int32_t CifarDataset::label(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size_, "no sample {}", index);
  return labels_[static_cast<std::size_t>(index)];
}

std::optional<ImageExtents> CifarDataset::extents() const { return ImageExtents{side, side}; }

ImageView CifarDataset::view(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size_, "no sample {}", index);
  return {&pixels_[static_cast<std::size_t>(index) * pixel_bytes], 3 * side, side, side, 3};
}

Image CifarDataset::load(std::int64_t index) const { return copy_of(view(index)); }

std::unique_ptr<ImageSource> CifarDataset::open(std::int64_t index) const {
  return std::make_unique<ImageInMemory>(view(index));
}

std::string CifarDataset::describe(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size_, "no sample {}", index);
  const auto after =
      std::ranges::upper_bound(files_, index, {}, [](const File& file) { return file.first; });
  const File& file = *std::prev(after);
  return fmt::format("{}, sample {}", file.name, index - file.first);
}

}  // namespace tandem
