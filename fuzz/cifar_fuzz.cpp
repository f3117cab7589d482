#include "data/datasets/cifar_dataset.h"
#include "fuzz_input.h"

// A CIFAR file, read as either kind.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static fuzz::MemoryFile file;
  const auto& path = file.write({data, size});
  for (const CifarKind kind : {CifarKind::cifar10, CifarKind::cifar100}) {
    fuzz::refuse_or_read([&] {
      const CifarDataset set({path}, kind);
      for (std::int64_t i = 0; i < set.size(); ++i) {
        TANDEM_CHECK(set.label(i) < set.classes() && set.load(i).width == 32, "sample {}", i);
      }
    });
  }
  return 0;
}
