#include "data/augment/transform.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/augment/resample.h"
#include "data/augment/resample_float.h"

namespace tandem {
namespace {

void normalize_row(const std::uint8_t* in, std::size_t count, const float* scale,
                   const float* offset, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(in[i]) * scale[i] + offset[i];
  }
}

/// Copies `count` pixels, repeating gray or weighing RGB where the channel counts differ.
void convert_pixels(const std::uint8_t* in, int in_channels, std::ptrdiff_t count, int out_channels,
                    std::uint8_t* out) {
  if (in_channels == out_channels) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * static_cast<std::size_t>(in_channels));
  } else if (out_channels == 3) {
    for (std::ptrdiff_t x = 0; x < count; ++x, out += 3) out[0] = out[1] = out[2] = in[x];
  } else {
    for (std::ptrdiff_t x = 0; x < count; ++x, in += 3) out[x] = luma(in[0], in[1], in[2]);
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
  for (std::size_t c = 0; c < channels; ++c) {
    const float deviation = options.deviation[c];
    TANDEM_CHECK(deviation > 0.0F, "a deviation of {}", deviation);
    normalization_.scale[c] = 1.0F / (255.0F * deviation);
    normalization_.offset[c] = -options.mean[c] / deviation;
  }
  const auto values = static_cast<std::size_t>(options.size) * channels;
  for (std::size_t i = 0; i < values; ++i) {
    row_scale_.push_back(normalization_.scale[i % channels]);
    row_offset_.push_back(normalization_.offset[i % channels]);
  }
}

void Transform::apply(ImageSource& source, RandomStream& random, float* out) const {
  const Placement placement = place(source, random);
  const ImagePart part = read(source, placement);
  if (rounds_nothing(part)) {
    const int size = options_.size;
    resize_to_floats(part.view,
                     {.height = size,
                      .width = size,
                      .box = part.box,
                      .mirrored = placement.mirrored,
                      .scale = normalization_.scale,
                      .offset = normalization_.offset},
                     out);
  } else {
    Image made;
    write(cut(part, placement, random, made), out);
  }
  const PixelRect erased = draw_erased(random);
  for (int y = erased.top; y < erased.top + erased.height; ++y) {
    std::fill_n(out + (std::ptrdiff_t{y} * options_.size + erased.left) * options_.channels,
                erased.width * options_.channels, 0.0F);
  }
}

PixelFormat Transform::pixel_format(const std::optional<ImageExtents>& extents) const {
  const PixelFormat crop{options_.size, options_.size, options_.channels, false};
  if (!extents || rand_augments() || crops_and_resizes()) return crop;
  if (resized(extents->height, extents->width) != *extents) return crop;
  return {extents->height, extents->width, options_.channels, true};
}

SampleEdit Transform::plan(ImageSource& source, RandomStream& random, const PixelFormat& format,
                           std::uint8_t* pixels) const {
  const int size = options_.size;
  const Placement placement = place(source, random);
  const ImagePart part = read(source, placement);
  SampleEdit edit;
  if (rounds_nothing(part)) {
    resize_to_bytes(part.view, {.height = size, .width = size, .box = part.box}, pixels);
    edit.mirrored = placement.mirrored ? 1 : 0;
  } else {
    Image made;
    Window window = cut(part, placement, random, made);
    edit.mirrored = window.mirrored ? 1 : 0;
    if (format.whole) {
      copy_whole(window.source, format, pixels);
      edit.top = window.top;
      edit.left = window.left;
    } else {
      window.mirrored = false;
      const auto values = static_cast<std::ptrdiff_t>(row_scale_.size());
      for (int y = 0; y < size; ++y) cut_row(window, y, pixels + y * values);
    }
  }
  edit.erased = draw_erased(random);
  return edit;
}

/// The extents that images are resized to; their own where they are not.
ImageExtents Transform::resized(int height, int width) const {
  const int size = options_.size;
  if (options_.resize == 0 && height == size && width == size) return {height, width};
  const PixelRect whole =
      resized_extents(height, width, options_.resize > 0 ? options_.resize : size);
  return {whole.height, whole.width};
}

Transform::Placement Transform::place(const ImageSource& source, RandomStream& random) const {
  const int height = source.height();
  const int width = source.width();
  TANDEM_CHECK(height > 0 && width > 0, "an image of {}x{}", height, width);
  const int size = options_.size;
  Placement placement;
  if (crops_and_resizes()) {
    placement.box = random_resized_crop(height, width, options_.ranges, random);
    placement.resized = {size, size};
  } else {
    placement.box = {0, 0, height, width};
    placement.resized = resized(height, width);
    const auto [full_height, full_width] = placement.resized;
    const PixelRect crop =
        options_.train && options_.crop_padding >= 0
            ? random_crop(full_height, full_width, size, options_.crop_padding, random)
            : center_crop(full_height, full_width, size);
    placement.top = crop.top;
    placement.left = crop.left;
  }
  placement.mirrored = options_.train && options_.flip && random.uniform() < 0.5F;
  return placement;
}

ImagePart Transform::read(ImageSource& source, const Placement& placement) const {
  if (crops_and_resizes()) return source.read(placement.box, options_.size, options_.size);
  const ImageView whole = source.read_all();
  return {whole, whole_of(whole.height, whole.width)};
}

/// Whether the pixels go from the part to the output in floats.
bool Transform::rounds_nothing(const ImagePart& part) const {
  return crops_and_resizes() && part.view.channels == 3 && options_.channels == 3 &&
         !rand_augments();
}

/// The window, in `part` where nothing is resized and not augmented; else in `made`.
Transform::Window Transform::cut(const ImagePart& part, const Placement& placement,
                                 RandomStream& random, Image& made) const {
  const int size = options_.size;
  const auto [height, width] = placement.resized;
  Window window{part.view, placement.top, placement.left, placement.mirrored};
  if (crops_and_resizes() || height != part.view.height || width != part.view.width) {
    // Only what the window shows is resized.
    PixelRect shown;
    shown.top = std::clamp(placement.top, 0, height);
    shown.left = std::clamp(placement.left, 0, width);
    shown.height = std::clamp(placement.top + size, 0, height) - shown.top;
    shown.width = std::clamp(placement.left + size, 0, width) - shown.left;
    if (shown.height > 0 && shown.width > 0) {
      made = resize(part.view, {height, width, part.box, shown});
    } else {
      made.channels = part.view.channels;  // the window shows padding alone
    }
    window.source = view_of(made);
    window.top -= shown.top;
    window.left -= shown.left;
  }
  return rand_augments() ? augment(window, random, made) : window;
}

/// The window's pixels, mirrored and augmented, in `made`, which may hold the window's source.
Transform::Window Transform::augment(const Window& window, RandomStream& random,
                                     Image& made) const {
  const int size = options_.size;
  const auto values = row_scale_.size();
  Image image{size, size, options_.channels,
              std::vector<std::uint8_t>(static_cast<std::size_t>(size) * values)};
  for (int y = 0; y < size; ++y) {
    cut_row(window, y, image.pixels.data() + static_cast<std::size_t>(y) * values);
  }
  rand_augment(options_.rand_augment, image, random);
  made = std::move(image);
  return {.source = view_of(made)};
}

/// Without extents where nothing is erased.
PixelRect Transform::draw_erased(RandomStream& random) const {
  if (!options_.train || options_.random_erasing <= 0.0) return {};
  if (static_cast<double>(random.uniform()) >= options_.random_erasing) return {};
  return random_erasing(options_.size, random);
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

void Transform::copy_whole(const ImageView& image, const PixelFormat& format,
                           std::uint8_t* out) const {
  TANDEM_CHECK(image.height == format.height && image.width == format.width,
               "an image of {}x{} among ones of {}x{}", image.height, image.width, format.height,
               format.width);
  if (image.row_stride == std::ptrdiff_t{image.width} * image.channels) {
    convert_pixels(image.pixels, image.channels, std::ptrdiff_t{image.width} * image.height,
                   format.channels, out);
    return;
  }
  for (int y = 0; y < image.height; ++y) {
    convert_pixels(image.row(y), image.channels, image.width, format.channels,
                   out + std::ptrdiff_t{y} * image.width * format.channels);
  }
}

}  // namespace tandem
