// Files made byte by byte that break one rule of the format each, and every one-bit damage of a
// small sound one.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "support/message.h"
#include "train/checkpoints/safetensors.h"
#include "train/scratch.h"

namespace tandem {
namespace {

class SafetensorsDamage : public ScratchTest {
 protected:
  static std::string file_of(std::string_view header, std::string_view data) {
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return bytes.append(header).append(data);
  }
  std::string rejected_bytes(std::string_view bytes) const {
    put(path("x"), bytes);
    std::string message = message_of<InputError>([&] { SafetensorsFile(path("x")); });
    EXPECT_TRUE(message == "nothing was thrown" || message.starts_with("'" + path("x").string()))
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  std::string rejected(std::string_view header, std::string_view data) const {
    return rejected_bytes(file_of(header, data));
  }
};

#define EXPECT_SAYS(message, part)                                     \
  do {                                                                 \
    const std::string& said = (message);                               \
    EXPECT_NE(said.find(part), std::string::npos) << "said: " << said; \
  } while (false)

TEST_F(SafetensorsDamage, SoundOnesPass) {
  const std::string sound = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(rejected(sound, "12"), "nothing was thrown");
  EXPECT_EQ(rejected(sound + "     ", "12"), "nothing was thrown");
  // Any order of names, keys and places; empty tensors share a place with their neighbours.
  EXPECT_EQ(rejected(R"({"b":{"data_offsets":[2,3],"shape":[],"dtype":"U8"},)"
                     R"("e":{"dtype":"I64","shape":[0],"data_offsets":[2,2]},)"
                     R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                     "123"),
            "nothing was thrown");
}

TEST_F(SafetensorsDamage, HeaderLength) {
  EXPECT_SAYS(rejected_bytes(""), "it has 0 bytes");
  EXPECT_SAYS(rejected_bytes("1234567"), "it has 7 bytes");
  EXPECT_SAYS(rejected_bytes(std::string(8, '\0')), "does not begin with '{'");
  EXPECT_SAYS(rejected_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10)), "cut short");
  EXPECT_SAYS(rejected_bytes(std::string(8, '\xff') + "{}"), "of another kind");
  EXPECT_SAYS(rejected_bytes("# Not weights, but some text."), "of another kind");
  EXPECT_SAYS(rejected_bytes(std::string("\xf8\xff\xff\xff\xff\xff\xff\xff{}", 10)),
              "of another kind");
}

TEST_F(SafetensorsDamage, Json) {
  EXPECT_SAYS(rejected(" {}", ""), "does not begin with '{'");
  EXPECT_SAYS(rejected("[]", ""), "does not begin with '{'");
  EXPECT_SAYS(rejected("{", ""), "is not JSON");
  EXPECT_SAYS(rejected("{}{}", ""), "is not JSON");
  EXPECT_SAYS(rejected("{\"\xff\":1}", ""), "is not JSON");
  EXPECT_SAYS(rejected(R"({"a":)" + std::string(100000, '['), ""), "nests too deep");
  EXPECT_SAYS(rejected(R"({"a":1e999})", ""), "has a number that is out of range");
  EXPECT_SAYS(rejected(R"({"a":1})", ""), "tensor 'a' is described by something else");
  EXPECT_SAYS(rejected(R"({"a":null})", ""), "tensor 'a' is described by something else");
  EXPECT_SAYS(rejected(R"({"__metadata__":[]})", ""), "__metadata__ is no object");
  EXPECT_SAYS(rejected(R"({"__metadata__":{"k":1}})", ""), "__metadata__ 'k' is no text");
}

TEST_F(SafetensorsDamage, DoubledKeys) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_SAYS(rejected("{" + a + "," + a + "}", "1"), "has 'a' twice");
  EXPECT_SAYS(rejected(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "has 'k' twice");
  EXPECT_SAYS(rejected(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", "1"),
              "has 'shape' twice");
}

TEST_F(SafetensorsDamage, TensorEntries) {
  const auto entry = [&](std::string_view dtype, std::string_view shape, std::string_view offsets,
                         std::string_view data, std::string_view more = "") {
    return rejected(fmt::format(R"({{"w":{{"dtype":{},"shape":{},"data_offsets":{}{}}}}})", dtype,
                                shape, offsets, more),
                    data);
  };
  EXPECT_EQ(entry("\"F32\"", "[1]", "[0,4]", "1234"), "nothing was thrown");
  EXPECT_SAYS(entry("\"F64\"", "[1]", "[0,8]", "12345678"), "tensor 'w' has dtype 'F64'");
  EXPECT_SAYS(entry("32", "[1]", "[0,4]", "1234"), "tensor 'w' has no dtype");
  EXPECT_SAYS(entry("\"F32\"", "1", "[0,4]", "1234"), "tensor 'w' has no shape list");
  EXPECT_SAYS(entry("\"F32\"", "[-1]", "[0,4]", "1234"), "something else than whole numbers");
  EXPECT_SAYS(entry("\"F32\"", "[1.0]", "[0,4]", "1234"), "something else than whole numbers");
  EXPECT_SAYS(entry("\"F32\"", "[\"1\"]", "[0,4]", "1234"), "something else than whole numbers");
  EXPECT_SAYS(entry("\"F32\"", "[99999999999999999999]", "[0,4]", "1234"),
              "something else than whole numbers");
  EXPECT_SAYS(entry("\"F32\"", "[1,1,1,1,1,1,1]", "[0,4]", "1234"), "'w' has 7 dimensions");
  EXPECT_SAYS(entry("\"F32\"", "[4294967296,4294967296]", "[0,0]", ""), "'w' overflows");
  EXPECT_SAYS(entry("\"F32\"", "[18446744073709551615]", "[0,4]", "1234"), "'w' overflows");
  EXPECT_SAYS(entry("\"F32\"", "[4611686018427387905]", "[0,4]", "1234"), "'w' overflows");
  EXPECT_SAYS(entry("\"U8\"", "[9223372036854775807]", "[0,1]", "1"), "'w' overflows");
  EXPECT_SAYS(entry("\"F32\"", "[0,18446744073709551615]", "[0,0]", ""), "'w' overflows");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[0,4,4]", "1234"), "has 3 data_offsets");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[4,0]", "1234"), "bytes 4 to 0, but there are 4");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[0,4]", "123"), "bytes 0 to 4, but there are 3");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]", "1234"),
              "but there are 4");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[0,3]", "1234"),
              "takes 4 bytes, but its data_offsets span 3");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[0,4]", "12345"), "take 4 bytes, but there are 5");
  EXPECT_SAYS(entry("\"F32\"", "[1]", "[0,4]", "1234", ",\"x\":1"), "keys besides");
  EXPECT_SAYS(rejected(R"({"w":{"dtype":"U8","shape":[1]}})", "1"), "keys besides");
  EXPECT_SAYS(rejected(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"),
              "a tensor has no name");
}

TEST_F(SafetensorsDamage, PlacesMustCoverTheData) {
  const auto two = [&](std::string_view a, std::string_view b, std::string_view data) {
    return rejected(fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{}}},)"
                                R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
                                a, b),
                    data);
  };
  EXPECT_EQ(two("[2,4]", "[0,2]", "1234"), "nothing was thrown");
  EXPECT_SAYS(two("[0,2]", "[1,3]", "1234"), "tensor 'b' begins at byte 1 of the data where 2 is");
  EXPECT_SAYS(two("[0,2]", "[0,2]", "12"), "is taken already");
  EXPECT_SAYS(two("[0,2]", "[3,5]", "12345"), "where 2 would be next");
  EXPECT_SAYS(two("[1,3]", "[3,5]", "12345"), "tensor 'a' begins at byte 1");
  EXPECT_SAYS(two("[0,2]", "[2,4]", "12345"), "take 4 bytes, but there are 5");
}

std::string sound_checkpoint(const std::filesystem::path& path) {
  const std::array<float, 3> w{1.5F, -2.0F, 3.25F};
  const std::array<std::uint8_t, 2> rgb{1, 200};
  write_safetensors(path,
                    std::vector<NamedTensor>{{"w", DType::f32, Shape{3}, w.data()},
                                             {"rgb", DType::u8, Shape{2}, rgb.data()}},
                    {{"step", "12"}}, WriteChecksum::yes);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(SafetensorsDamage, EveryTruncationIsAnInputError) {
  const std::string sound = sound_checkpoint(path("sound"));
  for (std::size_t length = 0; length < sound.size(); ++length) {
    EXPECT_NE(rejected_bytes(sound.substr(0, length)), "nothing was thrown") << length;
  }
  EXPECT_NE(rejected_bytes(sound + "x"), "nothing was thrown");
}

/// Whether two sound files mean the same: then a flipped bit changed spelling alone.
void expect_same(const SafetensorsFile& a, const SafetensorsFile& b) {
  EXPECT_EQ(a.metadata(), b.metadata());
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const NamedTensor& tensor : a.tensors()) {
    const NamedTensor& other = b.at(tensor.name);
    EXPECT_EQ(tensor.dtype, other.dtype);
    EXPECT_EQ(tensor.shape, other.shape);
    EXPECT_EQ(std::memcmp(tensor.data, other.data, tensor.bytes()), 0);
  }
}

TEST_F(SafetensorsDamage, NoFlippedBitGoesUnseen) {
  const std::string sound = sound_checkpoint(path("sound"));
  const SafetensorsFile original(path("sound"));
  int rejections = 0;
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    put(path("flipped"), bytes);
    try {
      const SafetensorsFile file(path("flipped"), ReadChecksum::required);
      expect_same(file, original);
    } catch (const InputError&) {
      ++rejections;
    }
  }
  // All but a flip that turns one blank into another.
  EXPECT_GT(rejections, static_cast<int>(sound.size() * 8) - 8);
}

TEST_F(SafetensorsDamage, DataDamageSaysWhatToDo) {
  std::string bytes = sound_checkpoint(path("sound"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::string message = rejected_bytes(bytes);
  EXPECT_SAYS(message, "is damaged (its CRC-32 is ");
  EXPECT_SAYS(message, "; use an older checkpoint");
}

TEST_F(SafetensorsDamage, AMissingChecksumCanBeAnError) {
  write_safetensors(path("a"), {});
  EXPECT_SAYS(message_of<InputError>([&] { SafetensorsFile(path("a"), ReadChecksum::required); }),
              "has no checksum");
}

}  // namespace
}  // namespace tandem
