#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tandem {
namespace {

/// FNV-1a's published answers for 64 bits.
TEST(Hash, TextIsFnv1a) {
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8ULL);
}

TEST(Hash, BytesSeeEveryBitAndTheLength) {
  for (const std::size_t length : {1U, 7U, 8U, 9U, 24U, 31U}) {
    std::vector<unsigned char> data(length, 0);
    std::set<std::uint64_t> seen{hash_bytes(data.data(), data.size())};
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
      seen.insert(hash_bytes(data.data(), data.size()));
      data[bit / 8] = 0;
    }
    EXPECT_EQ(seen.size(), 8 * length + 1) << length << " bytes";
    data.push_back(0);
    EXPECT_FALSE(seen.contains(hash_bytes(data.data(), data.size())));
  }
}

TEST(Hash, BytesSeeTheOrderOfWords) {
  const std::vector<std::uint64_t> one{1, 2};
  const std::vector<std::uint64_t> other{2, 1};
  EXPECT_NE(hash_bytes(one.data(), 16), hash_bytes(other.data(), 16));
}

TEST(Hash, BytesDoNotNeedAlignment) {
  std::vector<unsigned char> data(33);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 37);
  std::vector<unsigned char> shifted(data.begin() + 1, data.end());
  EXPECT_EQ(hash_bytes(data.data() + 1, 32), hash_bytes(shifted.data(), 32));
}

}  // namespace
}  // namespace tandem
