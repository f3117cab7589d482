#pragma once

#include <filesystem>

#include "data/datasets/dataset.h"

namespace tandem {

/// Extents of the images of an IDX file.
struct IdxImageShape {
  std::int64_t count = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
};

/// Reads only the header of an IDX image file. Throws like IdxDataset.
IdxImageShape read_idx_image_shape(const std::filesystem::path& images);

/// MNIST's format (http://yann.lecun.com/exdb/mnist): big-endian header, then unsigned bytes. Both
/// files may be gzip, told by content and not by name. Images are idx3 (count, height, width) or
/// idx4 (count, height, width, channels) with 1 or 3 channels; labels are idx1. Everything is held
/// in memory, unpacked.
///
/// Throws InputError, naming the file and what was expected and found, for a wrong magic number, a
/// truncated file, trailing bytes, counts that differ, or a label outside of [0, classes).
class IdxDataset final : public Dataset {
 public:
  IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels, int classes);

  std::int64_t size() const override { return shape_.count; }
  int classes() const override { return classes_; }
  int channels() const override { return shape_.channels; }
  std::optional<ImageExtents> extents() const override {
    return ImageExtents{shape_.height, shape_.width};
  }
  std::int32_t label(std::int64_t index) const override;
  Image load(std::int64_t index) const override;
  std::unique_ptr<ImageSource> open(std::int64_t index) const override;
  std::string describe(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return numbered_classes(classes_); }

 private:
  ImageView view(std::int64_t index) const;
  std::string images_file_;
  int classes_;
  IdxImageShape shape_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace tandem
