#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"

namespace tandem {

/// What a class folder without a JPEG is.
enum class EmptyClasses : std::uint8_t {
  refused,  ///< a mistake, by InputError
  listed    ///< a class without samples, in empty_classes()
};

/// ROOT/CLASS/*.jpg: one folder per class, sorted by name (bytes), its *.jpg and *.jpeg files (any
/// case) sorted by name. Names that begin with a dot are passed over; others are ignored and
/// counted in one log line. Whatever has a JPEG's name is a sample, a link that leads nowhere too:
/// reading it tells what is wrong with it. Images are decoded when they are loaded.
///
/// Throws InputError where there is no class folder, one without a JPEG that is refused, or beside
/// the class folders a link that cannot be followed.
class FolderDataset final : public Dataset {
 public:
  /// `channels` is 1 (decoded to gray) or 3. With `classes` (the training set's names, sorted) the
  /// labels are positions in it: a folder that is not in it is an InputError, one that is missing
  /// here gets a warning.
  explicit FolderDataset(const std::filesystem::path& root, int channels = 3,
                         const std::vector<std::string>& classes = {},
                         EmptyClasses empty = EmptyClasses::refused);

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  /// The class folders' names, sorted, of which there may be none. Throws InputError where `root`
  /// cannot be listed.
  static std::vector<std::string> class_folders(const std::filesystem::path& root);

  int classes() const override { return static_cast<int>(names_.size()); }
  int channels() const override { return channels_; }
  std::int32_t label(std::int64_t index) const override;
  Image load(std::int64_t index) const override;
  std::unique_ptr<ImageSource> open(std::int64_t index) const override;
  std::string describe(std::int64_t index) const override { return path_of(index).string(); }
  std::string_view sample_name(std::int64_t index) const override {
    return samples_.at(static_cast<std::size_t>(index)).file;
  }
  std::vector<std::string> class_names() const override { return names_; }
  /// Paths of class folders without a JPEG.
  const std::vector<std::string>& empty_classes() const { return empty_classes_; }

 private:
  struct Sample {
    std::int32_t label;
    std::string file;
  };
  std::size_t add_class(const std::string& name, std::int32_t label, EmptyClasses empty);
  std::filesystem::path path_of(std::int64_t index) const;

  std::filesystem::path root_;
  int channels_;
  std::vector<std::string> names_;
  std::vector<Sample> samples_;
  std::vector<std::string> empty_classes_;
};

}  // namespace tandem
