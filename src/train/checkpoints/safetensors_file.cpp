#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_work.h"
#include "base/text.h"
#include "train/checkpoints/safetensors.h"
#include "train/checkpoints/safetensors_checksum.h"
#include "train/checkpoints/safetensors_header.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view expected = "give a checkpoint or a weights file (.safetensors)";

/// The path, which is something's and no folder's. For a run's folder the message names a file in
/// it.
fs::path expect_file(fs::path path) {
  file_in_hand(path);
  std::error_code code;
  const fs::file_type type = fs::status(path, code).type();
  if (type == fs::file_type::not_found) {
    input_error("cannot read '{}': {}; {}", path.string(),
                std::make_error_code(std::errc::no_such_file_or_directory).message(), expected);
  }
  if (type != fs::file_type::directory) return path;
  const fs::path best = path / "checkpoints" / "best.safetensors";
  input_error("'{}' is a folder; {}{}", path.string(), expected,
              fs::exists(best, code) ? ", as " + best.string() : "");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path, ReadChecksum checksum)
    : path_(expect_file(std::move(path))), file_(path_) {
  SafetensorsHeader header = read_safetensors_header(file_.bytes(), path_);
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
  verify_checksum(checksum);
}

void SafetensorsFile::verify_checksum(ReadChecksum checksum) const {
  const auto stored = metadata_.find(std::string(safetensors_checksum_key));
  if (stored == metadata_.end()) {
    if (checksum == ReadChecksum::if_present) return;
    input_error(
        "'{}' has no checksum, so it is damaged or no checkpoint of Tandem's; use an older "
        "checkpoint",
        path_.string());
  }
  const std::string actual = safetensors_checksum(tensors_, metadata_);
  if (actual != stored->second) {
    input_error("'{}' is damaged (its CRC-32 is {}, it should be {}); use an older checkpoint",
                path_.string(), actual, stored->second);
  }
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  file_moved();  // who asks reads its bytes next, which are mapped
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const NamedTensor& SafetensorsFile::at(std::string_view name) const {
  if (const NamedTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors_) names.push_back(tensor.name);
  input_error("'{}' has no tensor '{}'{}; use a file that was written for this model",
              path_.string(), name, did_you_mean(name, names));
}

const std::string& SafetensorsFile::metadata_at(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    input_error("'{}' does not say its '{}'; use a file that Tandem wrote", path_.string(), key);
  }
  return found->second;
}

}  // namespace tandem
