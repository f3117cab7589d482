#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <new>
#include <vector>

#include "support/temporary_folder.h"
#include "train/checkpoints/safetensors.h"

// A checkpoint for whose header there is no memory: the writer throws, and ends nothing.

namespace {

/// After so many blocks there are none of a KiB or more.
std::atomic<long> blocks_left{std::numeric_limits<long>::max()};

}  // namespace

void* operator new(std::size_t bytes) {
  constexpr std::size_t small = 1024;
  const bool is_refused = --blocks_left < 0 && bytes >= small;
  void* const block = is_refused ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
// Not inlined: GCC would see new's memory given to free(), and warn.
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);
}

namespace tandem {
namespace {

/// Whether it was written.
bool write_with(long blocks, const std::filesystem::path& path,
                const std::vector<NamedTensor>& tensors) {
  blocks_left = blocks;
  bool written = true;
  try {
    write_safetensors(path, tensors, {{"step", "7"}}, WriteChecksum::yes);
  } catch (const std::bad_alloc&) {
    written = false;
  }
  blocks_left = std::numeric_limits<long>::max();
  return written;
}

// At whichever moment it runs out, and nothing ends the process.
TEST(SafetensorsWithoutMemory, AreNotWrittenAtAll) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "step.safetensors";
  const std::vector<float> values(4, 1.0F);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 100; ++i) {
    tensors.push_back({fmt::format("layer{}.0.conv1.weight", i), DType::f32, {4}, values.data()});
  }
  long blocks = 0;
  while (!write_with(blocks, path, tensors)) {
    ASSERT_TRUE(std::filesystem::is_empty(folder.path())) << blocks;
    ++blocks;
  }
  EXPECT_GT(blocks, 100);
  EXPECT_EQ(SafetensorsFile(path, ReadChecksum::required).tensors().size(), tensors.size());
}

}  // namespace
}  // namespace tandem
