#include "data/jpeg_decoder.h"
#include "fuzz_image.h"
#include "fuzz_input.h"

// A JPEG file with its EXIF orientation, decoded to colour and to gray.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  for (const int channels : {1, 3}) {
    fuzz::refuse_or_read([&] {
      const Image image = decode_jpeg({data, size}, channels, "photo.jpg");
      TANDEM_CHECK(image.channels == channels && fuzz::is_whole(image), "{}x{}x{} with {} bytes",
                   image.height, image.width, image.channels, image.pixels.size());
    });
  }
  return 0;
}
