#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/augment/augment.h"
#include "data/augment/rand_augment.h"
#include "data/augment/sample_edit.h"
#include "data/image_source.h"

namespace tandem {

/// From a decoded image to the model's input.
struct TransformOptions {
  int size = 0;      ///< height and width of the output, pixels
  int channels = 3;  ///< of the output: 1 or 3; gray is repeated, RGB becomes luma
  /// One value a channel, on the scale where pixels lie in 0..1: out = (pixel - mean) / deviation.
  std::vector<float> mean{0.5F, 0.5F, 0.5F};
  std::vector<float> deviation{0.5F, 0.5F, 0.5F};
  /// Shorter side to resize to before cropping, >= size. 0: images of size x size stay as they are,
  /// others are resized to `size`.
  int resize = 0;

  // The rest is for training; evaluation crops the centre and draws nothing.
  bool train = false;
  bool random_resized_crop = false;  ///< in place of `resize` and of the crop
  CropRanges ranges;
  /// Black pixels added on each side before a random crop; -1: the centre is cropped.
  int crop_padding = -1;
  double random_erasing = 0.0;      ///< probability that a random box becomes 0 after normalisation
  bool flip = false;                ///< mirrored left-right with probability one half
  RandAugmentOptions rand_augment;  ///< of the cropped and mirrored 8-bit pixels
};

/// From a byte to the model's input: out = byte * scale + offset, one of each a channel.
struct Normalization {
  std::array<float, 3> scale{};
  std::array<float, 3> offset{};
};

/// Crops, resizes, mirrors and normalises one image; see TransformOptions. Immutable, so threads
/// may share it.
class Transform {
 public:
  /// Throws Error where the options contradict each other.
  explicit Transform(const TransformOptions& options);

  /// Writes output_elements() floats, HWC, to `out`. What it draws, it draws from `random`: first
  /// the crop, then the flip, then RandAugment's operations, then the box to erase.
  /// Reads no more of the source than it shows: with random_resized_crop the box alone, reduced
  /// where that keeps size x size pixels.
  void apply(ImageSource& source, RandomStream& random, float* out) const;

  /// What plan() makes of images of these extents, if they all have the same: the images as they
  /// are where they need neither resizing nor RandAugment, else their crops.
  PixelFormat pixel_format(const std::optional<ImageExtents>& extents) const;

  /// The first half of apply(), with the same draws: writes format.bytes() bytes to `pixels` and
  /// returns what is left to do. With random_resized_crop in colour apply() rounds nothing, and
  /// bytes are its pixels rounded to whole levels; otherwise both see the same levels.
  SampleEdit plan(ImageSource& source, RandomStream& random, const PixelFormat& format,
                  std::uint8_t* pixels) const;

  const TransformOptions& options() const { return options_; }
  const Normalization& normalization() const { return normalization_; }
  std::int64_t output_elements() const {
    return std::int64_t{options_.size} * options_.size * options_.channels;
  }

 private:
  /// What is drawn before a pixel is read.
  struct Placement {
    PixelRect box;  ///< of the source; it is resized to
    ImageExtents resized;
    int top = 0;  ///< of the window in that
    int left = 0;
    bool mirrored = false;
  };
  /// What of `source` is seen: size x size pixels from the corner (top, left) on. Outside of the
  /// source lies black.
  struct Window {
    ImageView source;
    int top = 0;
    int left = 0;
    bool mirrored = false;
  };

  bool rand_augments() const { return options_.train && options_.rand_augment.ops > 0; }
  bool crops_and_resizes() const { return options_.train && options_.random_resized_crop; }
  ImageExtents resized(int height, int width) const;
  Placement place(const ImageSource& source, RandomStream& random) const;
  ImagePart read(ImageSource& source, const Placement& placement) const;
  bool rounds_nothing(const ImagePart& part) const;
  Window cut(const ImagePart& part, const Placement& placement, RandomStream& random,
             Image& made) const;
  Window augment(const Window& window, RandomStream& random, Image& made) const;
  PixelRect draw_erased(RandomStream& random) const;
  void cut_row(const Window& window, int y, std::uint8_t* out) const;
  void copy_whole(const ImageView& image, const PixelFormat& format, std::uint8_t* out) const;
  void write(const Window& window, float* out) const;

  TransformOptions options_;
  Normalization normalization_;
  // One row of factors and offsets, channels interleaved: the inner loop has no channel index.
  std::vector<float> row_scale_;
  std::vector<float> row_offset_;
};

}  // namespace tandem
