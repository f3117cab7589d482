#include "data/transform.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/resample.h"
#include "data/resample_float.h"

namespace tandem {
namespace {

void normalize_row(const std::uint8_t* in, std::size_t count, const float* scale,
                   const float* offset, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(in[i]) * scale[i] + offset[i];
  }
}

/// Copies `count` pixels, repeating gray or weighing RGB where the channel counts differ.
void convert_pixels(const std::uint8_t* in, int in_channels, int count, int out_channels,
                    std::uint8_t* out) {
  if (in_channels == out_channels) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * static_cast<std::size_t>(in_channels));
  } else if (out_channels == 3) {
    for (int x = 0; x < count; ++x, out += 3) out[0] = out[1] = out[2] = in[x];
  } else {
    for (int x = 0; x < count; ++x, in += 3) out[x] = luma(in[0], in[1], in[2]);
  }
}

void mirror_pixels(std::uint8_t* row, int count, int channels) {
  if (channels == 1) {
    std::reverse(row, row + count);
    return;
  }
  for (int left = 0, right = count - 1; left < right; ++left, --right) {
    std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
  }
}

}  // namespace

Transform::Transform(const TransformOptions& options) : options_(options) {
  const auto channels = static_cast<std::size_t>(options.channels);
  TANDEM_CHECK(options.size >= 1 && (options.channels == 1 || options.channels == 3),
               "a transform to {0}x{0}x{1}", options.size, options.channels);
  TANDEM_CHECK(options.mean.size() == channels && options.deviation.size() == channels,
               "{} means and {} deviations for {} channels", options.mean.size(),
               options.deviation.size(), channels);
  TANDEM_CHECK(options.resize == 0 || options.resize >= options.size,
               "images resized to {} have no {}x{} crop", options.resize, options.size,
               options.size);
  TANDEM_CHECK(options.rand_augment.ops >= 0 && options.rand_augment.magnitude >= 0 &&
                   options.rand_augment.magnitude < augment_bins,
               "{} operations of magnitude {}", options.rand_augment.ops,
               options.rand_augment.magnitude);
  const auto values = static_cast<std::size_t>(options.size) * channels;
  for (std::size_t i = 0; i < values; ++i) {
    const float deviation = options.deviation[i % channels];
    TANDEM_CHECK(deviation > 0.0F, "a deviation of {}", deviation);
    row_scale_.push_back(1.0F / (255.0F * deviation));
    row_offset_.push_back(-options.mean[i % channels] / deviation);
  }
}

void Transform::apply(ImageSource& source, RandomStream& random, float* out) const {
  TANDEM_CHECK(source.height() > 0 && source.width() > 0, "an image of {}x{}", source.height(),
               source.width());
  if (options_.train && options_.random_resized_crop) {
    apply_resized_crop(source, random, out);
  } else {
    apply_crop(source.read_all(), random, out);
  }
  if (options_.train && options_.random_erasing > 0.0) erase(random, out);
}

void Transform::erase(RandomStream& random, float* out) const {
  if (static_cast<double>(random.uniform()) >= options_.random_erasing) return;
  const PixelRect box = random_erasing(options_.size, random);
  for (int y = box.top; y < box.top + box.height; ++y) {
    std::fill_n(out + (std::ptrdiff_t{y} * options_.size + box.left) * options_.channels,
                box.width * options_.channels, 0.0F);
  }
}

void Transform::apply_resized_crop(ImageSource& source, RandomStream& random, float* out) const {
  const int size = options_.size;
  const PixelRect box =
      random_resized_crop(source.height(), source.width(), options_.ranges, random);
  const bool flip = options_.flip && random.uniform() < 0.5F;
  const ImagePart part = source.read(box, size, size);
  if (part.view.channels == 3 && options_.channels == 3 && !rand_augments()) {
    FloatResize wanted{.height = size, .width = size, .box = part.box, .mirrored = flip};
    std::copy_n(row_scale_.begin(), 3, wanted.scale.begin());
    std::copy_n(row_offset_.begin(), 3, wanted.offset.begin());
    resize_to_floats(part.view, wanted, out);
    return;
  }
  const Image resized = resize(part.view, {size, size, part.box, {0, 0, size, size}});
  finish({view_of(resized), 0, 0, flip}, random, out);
}

void Transform::apply_crop(const ImageView& image, RandomStream& random, float* out) const {
  const int size = options_.size;
  PixelRect whole{0, 0, image.height, image.width};
  if (options_.resize > 0 || image.height != size || image.width != size) {
    whole =
        resized_extents(image.height, image.width, options_.resize > 0 ? options_.resize : size);
  }
  const bool random_place = options_.train && options_.crop_padding >= 0;
  const PixelRect crop =
      random_place ? random_crop(whole.height, whole.width, size, options_.crop_padding, random)
                   : center_crop(whole.height, whole.width, size);
  const bool flip = options_.train && options_.flip && random.uniform() < 0.5F;
  if (whole.height == image.height && whole.width == image.width) {
    finish({image, crop.top, crop.left, flip}, random, out);
    return;
  }
  // Only what the crop shows is resized.
  PixelRect part;
  part.top = std::clamp(crop.top, 0, whole.height);
  part.left = std::clamp(crop.left, 0, whole.width);
  part.height = std::clamp(crop.top + size, 0, whole.height) - part.top;
  part.width = std::clamp(crop.left + size, 0, whole.width) - part.left;
  Image resized;
  if (part.height > 0 && part.width > 0) {
    resized = resize(image, {whole.height, whole.width, whole_of(image.height, image.width), part});
  } else {
    resized.channels = image.channels;  // the crop shows padding alone
  }
  finish({view_of(resized), crop.top - part.top, crop.left - part.left, flip}, random, out);
}

void Transform::finish(const Window& window, RandomStream& random, float* out) const {
  if (rand_augments()) {
    write_augmented(window, random, out);
  } else {
    write(window, out);
  }
}

/// Row y of the window, with the output's channels.
void Transform::cut_row(const Window& window, int y, std::uint8_t* out) const {
  const int size = options_.size;
  const ImageView& source = window.source;
  const int begin = std::clamp(-window.left, 0, size);
  const int end = std::clamp(source.width - window.left, begin, size);
  const int from = window.top + y;
  std::fill_n(out, row_scale_.size(), std::uint8_t{0});
  if (from < 0 || from >= source.height || begin >= end) return;
  const std::uint8_t* in = source.row(from) + std::ptrdiff_t{window.left + begin} * source.channels;
  convert_pixels(in, source.channels, end - begin, options_.channels,
                 out + begin * options_.channels);
  if (window.mirrored) mirror_pixels(out, size, options_.channels);
}

void Transform::write(const Window& window, float* out) const {
  const int size = options_.size;
  const ImageView& source = window.source;
  const auto values = row_scale_.size();
  const bool as_it_is = !window.mirrored && window.left >= 0 &&
                        window.left + size <= source.width && source.channels == options_.channels;
  std::vector<std::uint8_t> row(values);
  for (int y = 0; y < size; ++y, out += values) {
    const int from = window.top + y;
    const std::uint8_t* in = row.data();
    if (as_it_is && from >= 0 && from < source.height) {
      in = source.row(from) + std::ptrdiff_t{window.left} * source.channels;
    } else {
      cut_row(window, y, row.data());
    }
    normalize_row(in, values, row_scale_.data(), row_offset_.data(), out);
  }
}

void Transform::write_augmented(const Window& window, RandomStream& random, float* out) const {
  const int size = options_.size;
  const auto values = row_scale_.size();
  Image image{size, size, options_.channels,
              std::vector<std::uint8_t>(static_cast<std::size_t>(size) * values)};
  for (int y = 0; y < size; ++y) {
    cut_row(window, y, image.pixels.data() + static_cast<std::size_t>(y) * values);
  }
  rand_augment(options_.rand_augment, image, random);
  write({.source = view_of(image)}, out);
}

}  // namespace tandem
