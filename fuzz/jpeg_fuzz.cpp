#include "data/jpeg/jpeg_decoder.h"
#include "fuzz_image.h"
#include "fuzz_input.h"

// A JPEG file with its EXIF orientation, decoded to colour and to gray, whole and in part.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  for (const int channels : {1, 3}) {
    fuzz::refuse_or_read([&] {
      const Image image = decode_jpeg({data, size}, channels, "photo.jpg");
      TANDEM_CHECK(image.channels == channels && fuzz::is_whole(image), "{}x{}x{} with {} bytes",
                   image.height, image.width, image.channels, image.pixels.size());
    });
  }
  fuzz::refuse_or_read([&] {
    JpegImage image({data, data + size}, 3, "photo.jpg");
    const PixelRect middle{.top = image.height() / 4,
                           .left = image.width() / 4,
                           .height = (image.height() + 1) / 2,
                           .width = (image.width() + 1) / 2};
    for (const int divisor : {1, 4}) {
      fuzz::touch(image
                      .read(middle, (middle.height + divisor - 1) / divisor,
                            (middle.width + divisor - 1) / divisor)
                      .view);
    }
  });
  return 0;
}
