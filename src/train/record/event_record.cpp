#include "train/record/event_record.h"

#include <array>
#include <bit>

namespace tandem {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc32c_table() {
  constexpr std::uint32_t polynomial = 0x82f63b78U;  // 0x1edc6f41, its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1U) != 0 ? polynomial : 0U);
    }
    table[byte] = remainder;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> crc32c_table = make_crc32c_table();

void add_little_endian(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string masked_checksum(std::string_view bytes) {
  std::string text;
  add_little_endian(text, std::rotr(crc32c(bytes), 15) + 0xa282ead8U, 4);
  return text;
}

void add_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7f) | 0x80);
  text += static_cast<char>(value);
}

/// What follows a field's number, by the encoding's "wire types".
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

void add_key(std::string& text, std::uint32_t field, Wire wire) {
  add_varint(text, field << 3 | static_cast<std::uint32_t>(wire));
}

void add_integer(std::string& text, std::uint32_t field, std::int64_t value) {
  add_key(text, field, Wire::varint);
  add_varint(text, static_cast<std::uint64_t>(value));
}

void add_double(std::string& text, std::uint32_t field, double value) {
  add_key(text, field, Wire::fixed64);
  add_little_endian(text, std::bit_cast<std::uint64_t>(value), 8);
}

void add_float(std::string& text, std::uint32_t field, float value) {
  add_key(text, field, Wire::fixed32);
  add_little_endian(text, std::bit_cast<std::uint32_t>(value), 4);
}

/// A string or a message.
void add_bytes(std::string& text, std::uint32_t field, std::string_view bytes) {
  add_key(text, field, Wire::length_delimited);
  add_varint(text, bytes.size());
  text += bytes;
}

std::string event(double wall_time, std::int64_t step) {
  std::string text;
  add_double(text, 1, wall_time);
  add_integer(text, 2, step);
  return text;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = ~0U;
  for (const char byte : bytes) {
    const std::uint32_t index = (remainder ^ static_cast<unsigned char>(byte)) & 0xff;
    remainder = (remainder >> 8) ^ crc32c_table[index];
  }
  return ~remainder;
}

std::string tfrecord(std::string_view data) {
  std::string length;
  add_little_endian(length, data.size(), 8);
  std::string record = length + masked_checksum(length);
  record += data;
  record += masked_checksum(data);
  return record;
}

std::string version_event(double wall_time) {
  std::string text;
  add_double(text, 1, wall_time);
  add_bytes(text, 3, "brain.Event:2");
  return text;
}

std::string session_start_event(double wall_time, std::int64_t step) {
  std::string session;
  add_integer(session, 1, 1);
  std::string text = event(wall_time, step);
  add_bytes(text, 7, session);
  return text;
}

std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    add_bytes(value, 1, scalar.tag);
    add_float(value, 2, static_cast<float>(scalar.value));
    add_bytes(summary, 1, value);
  }
  std::string text = event(wall_time, step);
  add_bytes(text, 5, summary);
  return text;
}

}  // namespace tandem
