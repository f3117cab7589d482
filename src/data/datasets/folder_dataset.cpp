#include "data/datasets/folder_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_work.h"
#include "base/log.h"
#include "base/text.h"
#include "data/input_file.h"
#include "data/jpeg/jpeg_decoder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool is_jpeg_name(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension == ".jpg" || extension == ".jpeg";
}

/// Names of the entries of `folder` that `wanted` takes, sorted; those refused are counted.
template <typename Wanted>
std::vector<std::string> sorted_names(const fs::path& folder, std::size_t& refused,
                                      Wanted&& wanted) {
  file_in_hand(folder);
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    file_moved();
    std::string name = at->path().filename().string();
    if (name.front() == '.') continue;
    if (wanted(*at)) {
      names.push_back(std::move(name));
    } else {
      ++refused;
    }
  }
  if (code) input_error("{}: cannot be listed ({})", folder.string(), code.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// Folders hold classes. A link that leads nowhere may have led to one, so it is not passed over.
bool is_class_folder(const fs::directory_entry& entry) {
  std::error_code code;
  const bool folder = entry.is_directory(code);
  if (code) {
    input_error("{}: cannot be followed ({}); mend or remove the link", entry.path().string(),
                code.message());
  }
  return folder;
}

}  // namespace

std::vector<std::string> FolderDataset::class_folders(const fs::path& root) {
  std::size_t others = 0;
  return sorted_names(root, others, is_class_folder);
}

FolderDataset::FolderDataset(const fs::path& root, int channels,
                             const std::vector<std::string>& classes, EmptyClasses empty)
    : root_(root), channels_(channels), names_(classes) {
  TANDEM_CHECK(channels == 1 || channels == 3, "images decode to 1 or 3 channels, not {}",
               channels);
  std::size_t ignored = 0;
  const auto found = sorted_names(root, ignored, is_class_folder);
  if (found.empty()) {
    input_error("{}: no class folders; expected one folder per class with JPEG files in it",
                root.string());
  }
  if (names_.empty()) names_ = found;
  for (const std::string& name : found) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) {
      input_error("{}: class folder '{}' is not among the {} training classes{}", root.string(),
                  name, names_.size(), did_you_mean(name, names_));
    }
    ignored += add_class(name, static_cast<std::int32_t>(at - names_.begin()), empty);
  }
  if (found.size() < names_.size()) {
    log_warning("{}: {} of {} classes have no folder here", root.string(),
                names_.size() - found.size(), names_.size());
  }
  if (ignored > 0) {
    log_info("{}: {} {} ignored: neither class folder nor .jpg or .jpeg in one", root.string(),
             ignored, ignored == 1 ? "entry" : "entries");
  }
}

std::size_t FolderDataset::add_class(const std::string& name, std::int32_t label,
                                     EmptyClasses empty) {
  std::size_t ignored = 0;
  // By name alone: what then cannot be read is a bad sample, not one that is not there.
  auto files = sorted_names(root_ / name, ignored, [](const fs::directory_entry& entry) {
    return is_jpeg_name(entry.path());
  });
  if (files.empty()) {
    if (empty == EmptyClasses::refused) {
      input_error("{}: class folder without a .jpg or .jpeg file; fill or remove it",
                  (root_ / name).string());
    }
    empty_classes_.push_back((root_ / name).string());
  }
  for (std::string& file : files) samples_.push_back({label, std::move(file)});
  return ignored;
}

fs::path FolderDataset::path_of(std::int64_t index) const {
  const Sample& sample = samples_.at(static_cast<std::size_t>(index));
  return root_ / names_[static_cast<std::size_t>(sample.label)] / sample.file;
}

std::int32_t FolderDataset::label(std::int64_t index) const {
  return samples_.at(static_cast<std::size_t>(index)).label;
}

Image FolderDataset::load(std::int64_t index) const {
  const fs::path path = path_of(index);
  return decode_jpeg(read_whole_file(path), channels_, path.string());
}

std::unique_ptr<ImageSource> FolderDataset::open(std::int64_t index) const {
  const fs::path path = path_of(index);
  return std::make_unique<JpegImage>(read_whole_file(path), channels_, path.string());
}

}  // namespace tandem
