#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_source.h"

namespace tandem {

/// Labelled images by index. Indices run from 0 to size() - 1; an index outside is an Error. Every
/// member may be called from several threads at once. Labels were checked when the data set was
/// opened: each lies in [0, classes()).
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual int classes() const = 0;
  /// Channels of every image that load() gives: 1 or 3.
  virtual int channels() const = 0;
  /// Of every image, where they are all the same and known.
  virtual std::optional<ImageExtents> extents() const { return std::nullopt; }
  virtual std::int32_t label(std::int64_t index) const = 0;
  /// Reads or decodes one image. Throws InputError that names the sample where its file is broken.
  virtual Image load(std::int64_t index) const = 0;
  /// One image for a reader that may need a part of it only; not for longer than the data set is
  /// there. Throws as load() does, at once or from the source's read().
  virtual std::unique_ptr<ImageSource> open(std::int64_t index) const {
    return std::make_unique<DecodedImage>(load(index));
  }
  /// What a person looks for: the sample's path, or "FILE, sample N".
  virtual std::string describe(std::int64_t index) const = 0;
  /// The name of a sample within its class, such as its file's; empty where samples have none.
  virtual std::string_view sample_name(std::int64_t /*index*/) const { return {}; }
  /// One name a class, in the order of the labels.
  virtual std::vector<std::string> class_names() const = 0;
};

/// "0", "1", ... for data whose classes have no names.
std::vector<std::string> numbered_classes(int classes);

}  // namespace tandem
