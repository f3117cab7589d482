#include "train/record/event_record.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace tandem {
namespace {

/// "0aff" as two bytes.
std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// The definition: the remainder of the message, bits of a byte lowest first, as a polynomial over
/// GF(2), by schoolbook division; first 32 bits and result inverted, result's bits reversed.
std::uint32_t crc32c_by_division(std::string_view bytes) {
  std::vector<bool> bits;
  for (const char byte : bytes) {
    for (int i = 0; i < 8; ++i) bits.push_back((static_cast<unsigned char>(byte) >> i & 1) != 0);
  }
  bits.resize(bits.size() + 32);
  for (std::size_t i = 0; i < 32; ++i) bits[i] = !bits[i];
  constexpr std::uint64_t divisor = 0x11EDC6F41;  // x^32 + x^28 + ... + 1
  for (std::size_t at = 0; at + 32 < bits.size(); ++at) {
    if (!bits[at]) continue;
    for (std::size_t i = 0; i <= 32; ++i)
      bits[at + i] = bits[at + i] != ((divisor >> (32 - i) & 1) != 0);
  }
  std::uint32_t remainder = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    remainder |= static_cast<std::uint32_t>(!bits[bits.size() - 32 + i]) << i;
  }
  return remainder;
}

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(Crc32c, IsThePolynomialsRemainder) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(crc32c(text), crc32c_by_division(text)) << i;
    text += static_cast<char>(i * 37 + 200);
  }
}

// The bytes below were made with TensorBoard's own message classes and RecordWriter (package
// tensorboard 2.21.0), from the same values.
constexpr double time_stamp = 1700000000.25;

TEST(EventRecord, VersionIsTensorBoards) {
  EXPECT_EQ(version_event(time_stamp),
            from_hex("0900001040fc54d9411a0d627261696e2e4576656e743a32"));
}

TEST(EventRecord, FramingIsTensorBoards) {
  EXPECT_EQ(
      tfrecord(version_event(time_stamp)),
      from_hex("1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9"));
}

TEST(EventRecord, SessionStartIsTensorBoards) {
  EXPECT_EQ(session_start_event(time_stamp, 129), from_hex("0900001040fc54d9411081013a020801"));
}

TEST(EventRecord, ScalarsAreTensorBoards) {
  const std::array<EventScalar, 2> scalars{
      {{"train/loss", 0.625}, {"train/top1", std::numeric_limits<double>::quiet_NaN()}}};
  EXPECT_EQ(scalars_event(time_stamp, 300, scalars),
            from_hex("0900001040fc54d94110ac022a260a110a0a747261696e2f6c6f7373150000203f0a110a0a747"
                     "261696e2f746f7031150000c07f"));
}

}  // namespace
}  // namespace tandem
