#include "train/checkpoints/safetensors.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "support/message.h"
#include "train/checkpoints/safetensors_checksum.h"
#include "train/scratch.h"

namespace tandem {
namespace {

class Safetensors : public ScratchTest {};

const std::array<std::uint8_t, 64> pool = [] {
  std::array<std::uint8_t, 64> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  return bytes;
}();

TEST_F(Safetensors, EveryDtypeAndRankComesBack) {
  const std::vector<NamedTensor> written{
      {"byte", DType::u8, Shape{3}, pool.data()},
      {"half", DType::f16, Shape{1, 3}, pool.data() + 1},
      {"brain", DType::bf16, Shape{1, 1, 5}, pool.data() + 2},
      {"layer1.0.conv1.weight", DType::f32, Shape{2, 1, 1, 2}, pool.data() + 3},
      {"count", DType::i64, Shape{}, pool.data() + 4},
      {"ints", DType::i32, Shape{1, 2, 1, 1, 1, 2}, pool.data() + 5},
      {"none", DType::f32, Shape{0, 7}, nullptr},
      {"quote\" \\ \n ä", DType::u8, Shape{1}, pool.data() + 6},
  };
  const SafetensorsMetadata metadata{{"model", "resnet18"}, {"odd \"key\"", "line\nbreak"}};
  for (const WriteChecksum checksum : {WriteChecksum::no, WriteChecksum::yes}) {
    write_safetensors(path("a"), written, metadata, checksum);
    const SafetensorsFile file(path("a"));
    ASSERT_EQ(file.tensors().size(), written.size());
    for (const NamedTensor& tensor : written) {
      const NamedTensor& read = file.at(tensor.name);
      EXPECT_EQ(read.dtype, tensor.dtype) << tensor.name;
      EXPECT_EQ(read.shape, tensor.shape) << tensor.name;
      ASSERT_EQ(read.bytes(), tensor.bytes()) << tensor.name;
      if (read.bytes() == 0) continue;
      EXPECT_EQ(std::memcmp(read.data, tensor.data, read.bytes()), 0) << tensor.name;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data) % size_of(read.dtype), 0U)
          << tensor.name;
    }
    for (const auto& [key, value] : metadata) EXPECT_EQ(file.metadata_at(key), value);
    EXPECT_EQ(file.metadata().contains("crc32"), checksum == WriteChecksum::yes);
  }
}

TEST_F(Safetensors, BytesAreThoseOfTheFormat) {
  const std::array<float, 2> values{1.0F, -2.0F};
  const std::array<std::uint8_t, 1> byte{7};
  write_safetensors(path("a"),
                    std::vector<NamedTensor>{{"b", DType::u8, Shape{1}, byte.data()},
                                             {"w", DType::f32, Shape{2}, values.data()}},
                    {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  while (header.size() % 8 != 0) header += ' ';
  std::string expected(1, static_cast<char>(header.size()));
  expected += std::string(7, '\0') + header + std::string("\0\0\x80\x3f\0\0\0\xc0\x07", 9);
  EXPECT_EQ(get(path("a")), expected);
}

TEST_F(Safetensors, WithoutTensors) {
  write_safetensors(path("a"), {}, {}, WriteChecksum::yes);
  EXPECT_TRUE(SafetensorsFile(path("a"), ReadChecksum::required).tensors().empty());
  write_safetensors(path("b"), {});
  EXPECT_EQ(get(path("b")), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(SafetensorsFile(path("b")).tensors().empty());
}

TEST_F(Safetensors, TensorsComeInTheOrderOfTheFile) {
  write_safetensors(path("a"), std::vector<NamedTensor>{{"z", DType::u8, Shape{1}, pool.data()},
                                                        {"b", DType::f32, Shape{1}, pool.data()},
                                                        {"a", DType::f32, Shape{1}, pool.data()}});
  const SafetensorsFile file(path("a"));
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "b");
  EXPECT_EQ(file.tensors()[1].name, "a");
  EXPECT_EQ(file.tensors()[2].name, "z");
}

TEST_F(Safetensors, ReplacingAnOpenFileLeavesItsReaderAlone) {
  write_safetensors(path("a"), std::vector<NamedTensor>{{"x", DType::u8, Shape{4}, pool.data()}});
  SafetensorsFile opened(path("a"));
  const SafetensorsFile moved(std::move(opened));
  write_safetensors(path("a"), {});
  EXPECT_EQ(std::memcmp(moved.at("x").data, pool.data(), 4), 0);
}

TEST_F(Safetensors, ChecksumIsZlibsOverDescriptionAndData) {
  const std::vector<NamedTensor> tensors{{"w", DType::u8, Shape{2, 2}, pool.data()}};
  const std::string spoken = "1:k2:vv1:w2:u83:2x2";
  uLong expected =
      ::crc32(0, reinterpret_cast<const Bytef*>(spoken.data()), static_cast<uInt>(spoken.size()));
  expected = ::crc32(expected, pool.data(), 4);
  char text[9];
  std::snprintf(text, sizeof text, "%08lx", expected);
  EXPECT_EQ(safetensors_checksum(tensors, {{"k", "vv"}, {"crc32", "ignored"}}), text);
  EXPECT_EQ(tandem::crc32("123456789", 9), 0xCBF43926U);  // CRC-32's published check value.
}

TEST_F(Safetensors, WrongUseIsRefusedAndLeavesNoFile) {
  const auto refused = [&](const std::vector<NamedTensor>& tensors,
                           const SafetensorsMetadata& metadata = {}) {
    return message_of<Error>([&] { write_safetensors(path("a"), tensors, metadata); });
  };
  const NamedTensor x{"x", DType::u8, Shape{1}, pool.data()};
  EXPECT_NE(refused({x, x}).find("two tensors are named 'x'"), std::string::npos);
  EXPECT_NE(refused({{"", DType::u8, Shape{1}, pool.data()}}).find("cannot name"),
            std::string::npos);
  EXPECT_NE(refused({{"__metadata__", DType::u8, Shape{1}, pool.data()}}).find("cannot name"),
            std::string::npos);
  EXPECT_NE(refused({{"x", DType::u8, Shape{1}, nullptr}}).find("no data"), std::string::npos);
  EXPECT_NE(refused({x}, {{"crc32", "0"}}).find("belongs to the writer"), std::string::npos);
  EXPECT_NE(refused({{"\xff", DType::u8, Shape{1}, pool.data()}}).find("UTF-8"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Safetensors, MissingThingsAreNamed) {
  write_safetensors(path("a"),
                    std::vector<NamedTensor>{{"fc.weight", DType::u8, Shape{1}, pool.data()}});
  const SafetensorsFile file(path("a"));
  EXPECT_EQ(file.find("fc.bias"), nullptr);
  EXPECT_EQ(message_of<InputError>([&] { file.at("fc.weigth"); }),
            "'" + path("a").string() +
                "' has no tensor 'fc.weigth' (did you mean 'fc.weight'?); use a file that was "
                "written for this model");
  EXPECT_NE(message_of<InputError>([&] { file.metadata_at("step"); }).find("its 'step'"),
            std::string::npos);
  EXPECT_NE(message_of<InputError>([&] {
              SafetensorsFile(path("none"));
            }).find("none': No such file or directory; give a checkpoint or a weights file"),
            std::string::npos);
  EXPECT_NE(message_of<InputError>([&] {
              SafetensorsFile{folder_};
            }).find("is a folder; give a checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
