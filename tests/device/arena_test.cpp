#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

TEST(Arena, IsAlignedAndCleared) {
  AnyContext context = CpuContext(1);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 1000U, 100000U}) {
    // Dirty memory of the same size first, so that an arena that is not cleared is likely to show.
    auto& cpu = std::get<CpuContext>(context);
    void* dirty = cpu.allocate(bytes);
    std::fill_n(static_cast<std::byte*>(dirty), bytes, std::byte{0xff});
    cpu.deallocate(dirty);

    const Arena arena(context, bytes, "a test");
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % Arena::alignment, 0U);
    EXPECT_TRUE(std::all_of(arena.data(), arena.data() + bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
  }
}

TEST(Arena, MovesItsMemory) {
  AnyContext context = CpuContext(1);
  Arena first(context, 64, "a test");
  std::byte* const data = first.data();
  data[3] = std::byte{7};
  Arena second(std::move(first));
  EXPECT_EQ(second.data(), data);
  Arena third(context, 128, "another test");
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 64U);
  EXPECT_EQ(third.data()[3], std::byte{7});
}

TEST(Arena, RoundsOffsetsUp) {
  EXPECT_EQ(Arena::align(0), 0U);
  EXPECT_EQ(Arena::align(1), 256U);
  EXPECT_EQ(Arena::align(256), 256U);
  EXPECT_EQ(Arena::align(257), 512U);
}

TEST(Arena, NamesWhatThereIsNoMemoryFor) {
  AnyContext context = CpuContext(1);
  EXPECT_EQ(
      message_of<InputError>([&] { Arena(context, std::size_t{1} << 62U, "activations"); }),
      "not enough memory for activations: 4194304.0 TiB needed; use a smaller batch or model");
}

TEST(CpuContext, NeedsAThread) { EXPECT_THROW(CpuContext(0), Error); }

}  // namespace
}  // namespace tandem
