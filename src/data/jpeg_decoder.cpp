#include "data/jpeg_decoder.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/exif.h"
#include "data/orientation.h"

namespace tandem {
namespace {

/// libjpeg's state. libjpeg leaves a failed call by longjmp, which skips destructors; so everything
/// that has one lives outside of the guarded calls, and this owner frees libjpeg's memory.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> reason{};

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->reason.data());
  std::longjmp(decoder->escape, 1);
}

/// Warnings (level -1) that cost no pixels are passed over. After any other, such as a premature
/// end or a bad code, libjpeg would invent pixels, so those are errors.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      ++info->err->num_warnings;
      return;
    default:
      on_error(info);
  }
}

void on_output(j_common_ptr) {}

/// Runs `step`, which holds nothing with a destructor; false where libjpeg gave up.
template <typename Step>
bool guarded(Decoder& decoder, const Step& step) {
  if (setjmp(decoder.escape) != 0) return false;
  step();
  return true;
}

[[noreturn]] void refuse(const std::string& name, std::string_view reason) {
  input_error("{}: cannot be decoded as JPEG ({}); replace or remove it", name, reason);
}

void read_header(Decoder& decoder, std::span<const std::uint8_t> bytes, const std::string& name) {
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.errors.output_message = on_output;
  const bool good = guarded(decoder, [&] {
    constexpr unsigned longest_marker = 0xffff;
    jpeg_create_decompress(&decoder.info);
    jpeg_mem_src(&decoder.info, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&decoder.info, JPEG_APP0 + 1, longest_marker);
    static_cast<void>(jpeg_read_header(&decoder.info, TRUE));  // TRUE: errors leave by on_error
  });
  if (!good) refuse(name, decoder.reason.data());
  // Each 8x8 block costs at least one bit in the usual codings; subsampling and slack included.
  constexpr std::uint64_t most_pixels_per_byte = 1024;
  const std::uint64_t pixels = std::uint64_t{decoder.info.image_width} * decoder.info.image_height;
  if (pixels / most_pixels_per_byte > bytes.size()) {
    refuse(name, fmt::format("its header announces {}x{} pixels, too many for {}",
                             decoder.info.image_width, decoder.info.image_height,
                             format_bytes(bytes.size())));
  }
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
       marker = marker->next) {
    const int orientation = exif_orientation({marker->data, marker->data_length});
    if (orientation != 1) return orientation;
  }
  return 1;
}

/// Decodes to the colour space that was chosen in decoder.info.
Image read_pixels(Decoder& decoder, const std::string& name) {
  jpeg_decompress_struct& info = decoder.info;
  if (!guarded(decoder, [&] { static_cast<void>(jpeg_start_decompress(&info)); })) {
    refuse(name, decoder.reason.data());
  }
  const std::size_t row_bytes =
      std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components);
  Image image{static_cast<int>(info.output_height), static_cast<int>(info.output_width),
              info.output_components, std::vector<std::uint8_t>(row_bytes * info.output_height)};
  std::uint8_t* const pixels = image.pixels.data();
  const bool good = guarded(decoder, [&] {
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels + row_bytes * info.output_scanline;
      static_cast<void>(jpeg_read_scanlines(&info, &row, 1));
    }
    static_cast<void>(jpeg_finish_decompress(&info));
  });
  if (!good) refuse(name, decoder.reason.data());
  return image;
}

/// a * b / 255, rounded, for a and b in 0..255 (Blinn, "Three wrongs make a right", 1995).
constexpr int scaled(int a, int b) {
  const int t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

/// Ink to light: R = (255 - C) * (255 - K) / 255. Inverted files hold 255 - C and so on already.
Image from_cmyk(const Image& ink, bool inverted, int channels) {
  const std::size_t pixels = ink.pixels.size() / 4;
  Image image{ink.height, ink.width, channels,
              std::vector<std::uint8_t>(pixels * static_cast<std::size_t>(channels))};
  const int flip = inverted ? 0 : 255;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* cmyk = ink.pixels.data() + 4 * i;
    const int key = cmyk[3] ^ flip;
    const std::array<int, 3> rgb{scaled(cmyk[0] ^ flip, key), scaled(cmyk[1] ^ flip, key),
                                 scaled(cmyk[2] ^ flip, key)};
    if (channels == 1) {
      image.pixels[i] = luma(rgb[0], rgb[1], rgb[2]);
    } else {
      for (std::size_t c = 0; c < 3; ++c)
        image.pixels[3 * i + c] = static_cast<std::uint8_t>(rgb[c]);
    }
  }
  return image;
}

}  // namespace

Image decode_jpeg(std::span<const std::uint8_t> bytes, int channels, const std::string& name) {
  TANDEM_CHECK(channels == 1 || channels == 3, "a JPEG decodes to 1 or 3 channels, not {}",
               channels);
  Decoder decoder;
  read_header(decoder, bytes, name);
  const int orientation = orientation_of(decoder.info);  // libjpeg frees markers when it finishes
  const bool is_ink =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = is_ink ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  Image image = read_pixels(decoder, name);
  if (is_ink) image = from_cmyk(image, decoder.info.saw_Adobe_marker != FALSE, channels);
  return upright(std::move(image), orientation);
}

}  // namespace tandem
