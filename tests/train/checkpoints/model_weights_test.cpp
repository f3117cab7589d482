#include "train/checkpoints/model_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "support/message.h"
#include "train/scratch.h"

namespace tandem {
namespace {

constexpr const char* tiny_model = R"(
name = "tiny"
channels = 3
size = 6
classes = 4
[[node]]
name = "conv1"
op = "conv2d"
out = 5
kernel = 3
padding = 1
[[node]]
name = "bn1"
op = "batch_norm"
[[node]]
name = "relu"
op = "relu"
[[node]]
name = "avgpool"
op = "global_average_pool"
[[node]]
name = "fc"
op = "classifier"
)";

class ModelWeights : public ScratchTest {
 protected:
  AnyContext context{CpuContext(1)};
  Graph graph = fuse(parse_model(tiny_model, "tiny.toml", {}));
  ParameterStore store{graph, context, false};

  /// Values that no two elements of a tensor share.
  void fill(float start) {
    float value = start;
    for (float& each : store.all_values().span<float>()) each = value += 0.25F;
    for (float& each : store.all_buffers().span<float>()) each = value += 0.25F;
  }
};

std::vector<float> floats(const NamedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  std::memcpy(values.data(), tensor.data, tensor.bytes());
  return values;
}

TEST_F(ModelWeights, ExportHasTorchsNamesShapesAndOrder) {
  fill(1.0F);
  write_safetensors(path("w"), WeightsExport(store, 17).tensors());
  const SafetensorsFile file(path("w"));
  const std::vector<std::pair<std::string, Shape>> expected{
      {"conv1.weight", {5, 3, 3, 3}}, {"bn1.weight", {5}},      {"bn1.bias", {5}},
      {"bn1.running_mean", {5}},      {"bn1.running_var", {5}}, {"bn1.num_batches_tracked", {}},
      {"fc.weight", {4, 5}},          {"fc.bias", {4}}};
  EXPECT_EQ(file.tensors().size(), expected.size());
  for (const auto& [name, shape] : expected) EXPECT_EQ(file.at(name).shape, shape) << name;
  std::int64_t batches = 0;
  std::memcpy(&batches, file.at("bn1.num_batches_tracked").data, sizeof batches);
  EXPECT_EQ(batches, 17);
  // torch: weight[k][c][r][s]; here: [k][r][s][c].
  const std::vector<float> torch = floats(file.at("conv1.weight"));
  const float* here = store.value(store.parameter_index("conv1.weight")).data<float>();
  for (std::size_t k = 0; k < 5; ++k) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t r = 0; r < 3; ++r) {
        for (std::size_t s = 0; s < 3; ++s) {
          EXPECT_EQ(torch[k * 27 + c * 9 + r * 3 + s], here[k * 27 + r * 9 + s * 3 + c]);
        }
      }
    }
  }
  // torch's Linear has (out, in), as here.
  const Tensor linear = store.value(store.parameter_index("fc.weight"));
  EXPECT_EQ(floats(file.at("fc.weight")),
            std::vector<float>(linear.span<float>().begin(), linear.span<float>().end()));
}

TEST_F(ModelWeights, ExportAndLoadAreBitEqual) {
  store.initialize(3);
  // Bits that arithmetic would not keep.
  store.value(0).data<float>()[0] = -0.0F;
  store.value(0).data<float>()[1] = 1e-41F;
  write_safetensors(path("w"), WeightsExport(store, 5).tensors());
  ParameterStore other(graph, context, false);
  other.initialize(4);
  EXPECT_EQ(load_weights(SafetensorsFile(path("w")), other), 5);
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    EXPECT_EQ(std::memcmp(store.value(i).raw(), other.value(i).raw(), store.value(i).bytes()), 0);
  }
  EXPECT_EQ(std::memcmp(store.all_buffers().raw(), other.all_buffers().raw(),
                        store.all_buffers().bytes()),
            0);
}

TEST_F(ModelWeights, ThatAreNotFiniteAreRefused) {
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    store.initialize(3);
    store.value(store.parameter_index("fc.bias")).data<float>()[2] = wrong;
    write_safetensors(path("w"), WeightsExport(store, 5).tensors());
    EXPECT_EQ(
        message_of<InputError>([&] { load_weights(SafetensorsFile(path("w")), store); }),
        path("w").string() + ": 'fc.bias' holds values that are not finite; give other weights");
  }
}

TEST_F(ModelWeights, ZooModelsGoThroughAFileBitEqual) {
  for (const char* name : {"resnet26", "shufflenet_v2_x0_5", "mobilenet_v2", "efficientnet_b0"}) {
    const Graph model = fuse(load_model(find_model(name), {.classes = 10, .size = 32}));
    ParameterStore first(model, context, false);
    first.initialize(8);
    float value = 0.0F;
    for (float& each : first.all_buffers().span<float>()) each = value += 0.125F;
    write_safetensors(path("a"), WeightsExport(first, 9).tensors());
    ParameterStore second(model, context, false);
    EXPECT_EQ(load_weights(SafetensorsFile(path("a")), second), 9);
    write_safetensors(path("b"), WeightsExport(second, 9).tensors());
    const SafetensorsFile a(path("a"));
    const SafetensorsFile b(path("b"));
    ASSERT_EQ(a.tensors().size(), b.tensors().size()) << name;
    for (const NamedTensor& tensor : a.tensors()) {
      const NamedTensor& other = b.at(tensor.name);
      ASSERT_EQ(other.shape, tensor.shape) << tensor.name;
      EXPECT_EQ(std::memcmp(other.data, tensor.data, tensor.bytes()), 0) << tensor.name;
    }
  }
}

/// A file with every tensor of the model filled by `bits(i)`.
template <typename Bits>
void write_as(const std::filesystem::path& path, const ParameterStore& store, DType dtype,
              Bits bits) {
  std::vector<std::vector<std::uint16_t>> values;
  std::vector<NamedTensor> tensors;
  const WeightsExport reference(store, 0);
  for (const NamedTensor& each : reference.tensors()) {
    if (each.dtype != DType::f32) continue;
    auto& halves = values.emplace_back();
    for (std::int64_t i = 0; i < each.shape.elements(); ++i) {
      halves.push_back(bits(static_cast<std::size_t>(i)));
    }
    tensors.push_back({each.name, dtype, each.shape, nullptr});
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = values[i].data();
  write_safetensors(path, tensors);
}

struct Half {
  std::uint16_t bits;
  float value;
};
// IEEE 754 binary16: one, -2, the largest, the least normal, the least subnormal, -0, 1/3 rounded,
// the next after one.
constexpr Half f16_values[] = {
    {0x3C00, 1.0F},     {0xC000, -2.0F}, {0x7BFF, 65504.0F},        {0x0400, 0x1p-14F},
    {0x0001, 0x1p-24F}, {0x8000, -0.0F}, {0x3555, 0.333251953125F}, {0x3C01, 1.0009765625F}};
// bfloat16 is the upper half of binary32.
constexpr Half bf16_values[] = {{0x3F80, 1.0F},         {0xC000, -2.0F},    {0x7F7F, 0x1.FEp127F},
                                {0x0080, 0x1p-126F},    {0x8000, -0.0F},    {0x3EAB, 0.333984375F},
                                {0xFF7F, -0x1.FEp127F}, {0x4049, 3.140625F}};

TEST_F(ModelWeights, HalfPrecisionBecomesF32Exactly) {
  const auto check = [&](DType dtype, std::span<const Half> table) {
    write_as(path("h"), store, dtype, [&](std::size_t i) { return table[i % 8].bits; });
    EXPECT_EQ(load_weights(SafetensorsFile(path("h")), store), 0);
    const float* linear = store.value(store.parameter_index("fc.weight")).data<float>();
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(linear[i]),
                std::bit_cast<std::uint32_t>(table[i % 8].value))
          << name_of(dtype) << ' ' << i;
    }
    const float* conv = store.value(store.parameter_index("conv1.weight")).data<float>();
    for (std::size_t i = 0; i < 27; ++i) {  // the first filter: c * 9 + p there, p * 3 + c here
      EXPECT_EQ(std::bit_cast<std::uint32_t>(conv[i % 9 * 3 + i / 9]),
                std::bit_cast<std::uint32_t>(table[i % 8].value));
    }
  };
  check(DType::f16, f16_values);
  check(DType::bf16, bf16_values);
}

TEST_F(ModelWeights, MismatchesAreListed) {
  const WeightsExport whole(store, 0);
  const auto message = [&](std::vector<NamedTensor> tensors) {
    write_safetensors(path("w"), tensors);
    return message_of<InputError>([&] { load_weights(SafetensorsFile(path("w")), store); });
  };
  const std::string file = path("w").string() + " does not fit the model: ";
  const std::string advice = "; give weights of the same model, classes and input channels";
  std::vector<NamedTensor> tensors = whole.tensors();
  std::erase_if(tensors, [](const NamedTensor& t) { return t.name == "fc.bias"; });
  EXPECT_EQ(message(tensors), file + "'fc.bias' is missing" + advice);

  const std::vector<float> zeros(64, 0.0F);
  tensors = whole.tensors();
  tensors.push_back({"layer9.weight", DType::f32, {3}, zeros.data()});
  EXPECT_EQ(message(tensors), file + "'layer9.weight' is not in the model" + advice);

  tensors = whole.tensors();
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == "fc.bias") tensor = {"fc.bias", DType::f32, {7}, zeros.data()};
  }
  EXPECT_EQ(message(tensors), file + "'fc.bias' is f32 7, the model has f32 4" + advice);

  const std::string all = message({{"x", DType::f32, {1}, zeros.data()}});
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.bias", "fc.weight", "fc.bias"}) {
    EXPECT_NE(all.find(fmt::format("'{}' is missing", name)), std::string::npos) << all;
  }
  EXPECT_NE(all.find("; and 3 more; give"), std::string::npos) << all;
  // Nothing was loaded half.
  fill(1.0F);
  const float before = store.value(0).data<float>()[0];
  message({{"x", DType::f32, {1}, zeros.data()}});
  EXPECT_EQ(store.value(0).data<float>()[0], before);
}

TEST_F(ModelWeights, SkippedPartsKeepWhatTheyHave) {
  store.initialize(3);
  write_safetensors(path("w"), WeightsExport(store, 5).tensors());
  const Graph six = fuse(parse_model(tiny_model, "tiny.toml", {.classes = 6}));
  ParameterStore other(six, context, false);
  other.initialize(4);
  const auto value = [](const ParameterStore& of, const char* name) {
    const auto values = of.value(of.parameter_index(name)).span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> head = value(other, "fc.weight");
  const std::string message = message_of<InputError>(
      [&] { load_weights(SafetensorsFile(path("w")), other, {.advice = "do otherwise"}); });
  EXPECT_EQ(message, path("w").string() +
                         " does not fit the model: 'fc.weight' is f32 4x5, the model has f32 6x5; "
                         "'fc.bias' is f32 4, the model has f32 6; do otherwise");
  EXPECT_NE(value(other, "conv1.weight"), value(store, "conv1.weight")) << "nothing was loaded";
  load_weights(SafetensorsFile(path("w")), other, {.skip = NamePrefixes({"fc"})});
  EXPECT_EQ(value(other, "conv1.weight"), value(store, "conv1.weight"));
  EXPECT_EQ(value(other, "fc.weight"), head);
}

TEST_F(ModelWeights, TheAverageIsTakenWhereThereIsOne) {
  ParameterStore average(graph, context, false);
  store.initialize(3);
  average.initialize(4);
  const WeightsExport plain(store, 5);
  const HostStore average_on_host(average);
  const WeightsExport averaged = WeightsExport::average(average_on_host);
  std::vector<NamedTensor> tensors = plain.tensors();
  tensors.insert(tensors.end(), averaged.tensors().begin(), averaged.tensors().end());
  tensors.push_back({"optimizer.momentum.fc.bias", DType::f32, {4}, store.all_values().raw()});
  write_safetensors(path("c"), tensors);
  const SafetensorsFile file(path("c"));
  EXPECT_TRUE(has_average(file));
  for (const WhichWeights which : {WhichWeights::averaged, WhichWeights::trained}) {
    const ParameterStore& expected = which == WhichWeights::averaged ? average : store;
    ParameterStore loaded(graph, context, false);
    EXPECT_EQ(load_weights(file, loaded, {.which = which}), 5);
    EXPECT_EQ(std::memcmp(loaded.all_values().raw(), expected.all_values().raw(),
                          expected.all_values().bytes()),
              0);
    // What is exported is the same, under the plain names.
    write_safetensors(path("e"), weights_of(file, which));
    const SafetensorsFile exported(path("e"));
    EXPECT_EQ(exported.tensors().size(), plain.tensors().size());
    EXPECT_FALSE(has_average(exported));
    ParameterStore again(graph, context, false);
    EXPECT_EQ(load_weights(exported, again), 5);
    EXPECT_EQ(std::memcmp(again.all_values().raw(), expected.all_values().raw(),
                          expected.all_values().bytes()),
              0);
  }
}

}  // namespace
}  // namespace tandem
