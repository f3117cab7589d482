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
  const std::size_t record_bytes = label_bytes() + pixel_bytes;
  for (const std::filesystem::path& path : files) {
    File file{path.string(), size_, read_whole_file(path)};
    if (file.records.empty() || file.records.size() % record_bytes != 0) {
      input_error(
          "{}: expected a multiple of {} bytes ({} records), found {}; look whether data.kind is "
          "right, else fetch it again",
          file.name, record_bytes, kind == CifarKind::cifar10 ? "CIFAR-10" : "CIFAR-100",
          file.records.size());
    }
    size_ += static_cast<std::int64_t>(file.records.size() / record_bytes);
    files_.push_back(std::move(file));
  }
  for (std::int64_t i = 0; i < size_; ++i) {
    if (label(i) >= classes()) {
      input_error("{}: label {} is out of range; {} classes have labels 0 to {}", describe(i),
                  label(i), classes(), classes() - 1);
    }
  }
  names_ =
      read_names(files.front().parent_path() /
                     (kind == CifarKind::cifar10 ? "batches.meta.txt" : "fine_label_names.txt"),
                 static_cast<std::size_t>(classes()));
  if (names_.empty()) names_ = numbered_classes(classes());
}

CifarDataset::Place CifarDataset::find(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size_, "no sample {}", index);
  auto after = std::upper_bound(files_.begin(), files_.end(), index,
                                [](std::int64_t i, const File& file) { return i < file.first; });
  const File& file = *std::prev(after);
  return {&file, index - file.first};
}

const std::uint8_t* CifarDataset::record(std::int64_t index) const {
  const Place place = find(index);
  return place.file->records.data() +
         static_cast<std::size_t>(place.record) * (label_bytes() + pixel_bytes);
}

std::int32_t CifarDataset::label(std::int64_t index) const {
  return record(index)[label_bytes() - 1];
}

std::optional<ImageExtents> CifarDataset::extents() const { return ImageExtents{side, side}; }

Image CifarDataset::load(std::int64_t index) const {
  const std::uint8_t* planes = record(index) + label_bytes();
  Image image{side, side, 3, std::vector<std::uint8_t>(pixel_bytes)};
  for (std::size_t i = 0; i < plane; ++i) {
    image.pixels[3 * i] = planes[i];
    image.pixels[3 * i + 1] = planes[plane + i];
    image.pixels[3 * i + 2] = planes[2 * plane + i];
  }
  return image;
}

std::string CifarDataset::describe(std::int64_t index) const {
  const Place place = find(index);
  return fmt::format("{}, sample {}", place.file->name, place.record);
}

}  // namespace tandem
