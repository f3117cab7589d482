#include "fuzz_input.h"
#include "train/checkpoints/safetensors.h"

// A safetensors file: every tensor that it is said to hold must lie inside it.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static fuzz::MemoryFile bytes;
  const auto& path = bytes.write({data, size});
  fuzz::refuse_or_read([&] {
    const SafetensorsFile file(path);
    unsigned sum = 0;
    for (const NamedTensor& tensor : file.tensors()) {
      const auto* at = static_cast<const unsigned char*>(tensor.data);
      for (std::size_t i = 0; i < tensor.bytes(); ++i) sum += at[i];
      TANDEM_CHECK(file.find(tensor.name) == &tensor, "'{}' is not found", tensor.name);
    }
    static_cast<void>(sum);
  });
  fuzz::refuse_or_read([&] { const SafetensorsFile file(path, ReadChecksum::required); });
  return 0;
}
