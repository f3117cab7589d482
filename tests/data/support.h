#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/image.h"
#include "support/temporary_folder.h"

namespace tandem::testing {

using Bytes = std::vector<std::uint8_t>;

using tandem::TemporaryFolder;

inline std::filesystem::path write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(stream.good()) << path;
  return path;
}

inline Bytes gzipped(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Expects `call` to throw InputError whose message holds every one of `parts` and no line break.
template <typename Call>
void expect_input_error(Call&& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
    }
  }
}

/// A picture with no symmetry.
inline Image pattern(int height, int width, int channels) {
  Image image{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.pixels.push_back(
            static_cast<std::uint8_t>((x * 37 + y * 91 + c * 53 + x * y * 7) % 256));
      }
    }
  }
  return image;
}

inline int at(const Image& image, int y, int x, int c) {
  const std::int64_t pixel = std::int64_t{y} * image.width + x;
  return image.pixels[static_cast<std::size_t>(pixel * image.channels + c)];
}

}  // namespace tandem::testing
