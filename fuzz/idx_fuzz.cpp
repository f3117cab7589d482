#include "data/datasets/idx_dataset.h"
#include "fuzz_image.h"
#include "fuzz_input.h"

// An IDX file of images and one of labels, plain or gzip. The input's first two bytes say how many
// bytes of it are the labels' file.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  if (size < 2) return 0;
  static fuzz::MemoryFile images_file;
  static fuzz::MemoryFile labels_file;
  const fuzz::Bytes input(data + 2, size - 2);
  const std::size_t split = std::min<std::size_t>(data[0] + 256U * data[1], input.size());
  const auto& labels = labels_file.write(input.first(split));
  const auto& images = images_file.write(input.subspan(split));
  fuzz::refuse_or_read([&] { read_idx_image_shape(images); });
  fuzz::refuse_or_read([&] {
    const IdxDataset set(images, labels, 10);
    for (std::int64_t i = 0; i < set.size(); ++i) {
      const Image image = set.load(i);
      TANDEM_CHECK(set.label(i) < 10 && fuzz::is_whole(image), "sample {}", i);
    }
  });
  return 0;
}
