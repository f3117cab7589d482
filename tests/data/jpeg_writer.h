#pragma once

#include <jpeglib.h>

#include <cstddef>
#include <cstdio>

#include "data/support.h"

namespace tandem::testing {

struct JpegStyle {
  J_COLOR_SPACE in = JCS_RGB;        ///< of the pixels
  J_COLOR_SPACE stored = JCS_YCbCr;  ///< of the file
  bool progressive = false;
  bool adobe = false;  ///< the Adobe marker
  Bytes app1 = {};     ///< payload of an EXIF marker
  int across = 1;      ///< chroma is subsampled so many times along x
  int down = 1;        ///< and along y
};

/// Encodes at the best quality.
inline Bytes write_jpeg(const Image& image, const JpegStyle& style) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = style.in;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, style.stored);
  jpeg_set_quality(&info, 100, TRUE);
  for (int c = 0; c < info.num_components; ++c) {
    info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 1;
  }
  info.comp_info[0].h_samp_factor = style.across;
  info.comp_info[0].v_samp_factor = style.down;
  info.write_Adobe_marker = style.adobe ? TRUE : FALSE;
  if (style.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!style.app1.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, style.app1.data(),
                      static_cast<unsigned>(style.app1.size()));
  }
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.pixels.data()) +
                static_cast<std::size_t>(info.next_scanline) *
                    static_cast<std::size_t>(image.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

/// A smooth picture, which JPEG keeps within a few levels, without any symmetry.
inline Image smooth(int height, int width, int channels) {
  Image image{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int values[] = {20 + 200 * x / width, 30 + 150 * y / height,
                            220 - 60 * x / width - 90 * y / height, 40 + 90 * y / height};
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(values[c]));
    }
  }
  return image;
}

}  // namespace tandem::testing
