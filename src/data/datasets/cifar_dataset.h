#pragma once

#include <filesystem>

#include "data/datasets/dataset.h"

namespace tandem {

enum class CifarKind { cifar10, cifar100 };

/// The files of one part of CIFAR in `folder`: data_batch_1..5.bin or test_batch.bin for CIFAR-10,
/// train.bin or test.bin for CIFAR-100. They need not exist.
std::vector<std::filesystem::path> cifar_files(const std::filesystem::path& folder, CifarKind kind,
                                               bool train);

/// CIFAR's binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label (for
/// CIFAR-100 a coarse and a fine one; the fine one counts) and 32x32 pixels as three planes. The
/// images are held in memory as they are loaded, channels interleaved. Class names come from
/// batches.meta.txt or fine_label_names.txt beside the files where that is there, else they are
/// numbers.
///
/// Throws InputError, naming the file, where its size is no multiple of the record's or a label is
/// out of range.
class CifarDataset final : public Dataset {
 public:
  CifarDataset(const std::vector<std::filesystem::path>& files, CifarKind kind);

  std::int64_t size() const override { return size_; }
  int classes() const override { return kind_ == CifarKind::cifar10 ? 10 : 100; }
  int channels() const override { return 3; }
  std::optional<ImageExtents> extents() const override;
  std::int32_t label(std::int64_t index) const override;
  Image load(std::int64_t index) const override;
  std::unique_ptr<ImageSource> open(std::int64_t index) const override;
  std::string describe(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return names_; }

 private:
  ImageView view(std::int64_t index) const;
  struct File {
    std::string name;
    std::int64_t first = 0;  ///< index of its first sample
  };
  void read(const std::filesystem::path& path);

  CifarKind kind_;
  std::int64_t size_ = 0;
  std::vector<File> files_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::uint8_t> pixels_;  ///< (size, 32, 32, 3)
  std::vector<std::string> names_;
};

}  // namespace tandem
