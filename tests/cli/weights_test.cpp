#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <numeric>

#include "base/philox.h"
#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "support/state_dicts.h"

// Files as torchvision's state dicts make them, written and read by the test itself, through the
// real `tandem weights import` and `export`: what comes back is what was there, to the bit.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t batches = 1'234'567'890'123;  // num_batches_tracked; no float holds it

/// A safetensors file: the header's length, the header, the data.
struct TensorFile {
  Json header;
  std::string data;

  /// Dtype, shape and bytes of each tensor.
  std::map<std::string, std::string> tensors() const {
    std::map<std::string, std::string> found;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry.at("data_offsets").at(0);
      const std::size_t end = entry.at("data_offsets").at(1);
      found[name] = entry.at("dtype").dump() + entry.at("shape").dump() + ' ' +
                    data.substr(begin, end - begin);
    }
    return found;
  }
};

std::vector<std::int64_t> extents_of(const std::string& shape) {
  std::vector<std::int64_t> extents;
  if (shape == "scalar") return extents;
  std::istringstream words(shape);
  for (std::string word; std::getline(words, word, 'x');) extents.push_back(std::stoll(word));
  return extents;
}

/// Any finite floats: every sign and, but for the largest, every exponent.
std::string random_floats(const std::string& name, std::int64_t count) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  RandomStream random(5, name);
  for (std::uint32_t& word : words) {
    word = random.next_u32();
    constexpr std::uint32_t exponent = 0x7F800000;
    if ((word & exponent) == exponent) word &= ~exponent;  // a denormal, or a zero of either sign
  }
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])};
}

TensorFile state_dict_file(const StateDict& dict) {
  TensorFile file;
  file.header["__metadata__"] = {{"format", "pt"}};
  // As the Python package orders them: by alignment, widest first, then by name.
  std::vector<StateDictEntry> entries = dict;
  std::ranges::sort(entries, [](const auto& a, const auto& b) {
    return std::tuple(a.dtype != "i64", a.name) < std::tuple(b.dtype != "i64", b.name);
  });
  for (const StateDictEntry& entry : entries) {
    const std::vector<std::int64_t> extents = extents_of(entry.shape);
    const std::size_t begin = file.data.size();
    if (entry.dtype == "i64") {
      file.data.append(reinterpret_cast<const char*>(&batches), sizeof batches);
    } else {
      file.data += random_floats(entry.name, std::accumulate(extents.begin(), extents.end(),
                                                             std::int64_t{1}, std::multiplies()));
    }
    file.header[entry.name] = {{"dtype", entry.dtype == "i64" ? "I64" : "F32"},
                               {"shape", extents},
                               {"data_offsets", {begin, file.data.size()}}};
  }
  return file;
}

void write(const fs::path& path, const TensorFile& file) {
  const std::string header = file.header.dump();
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  write_file(path, bytes + header + file.data);
}

TensorFile read(const fs::path& path) {
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  EXPECT_GT(bytes.size(), sizeof length);
  std::memcpy(&length, bytes.data(), sizeof length);
  return {Json::parse(bytes.substr(sizeof length, length)), bytes.substr(sizeof length + length)};
}

class TorchvisionWeights : public RunTest, public testing::WithParamInterface<const char*> {};

TEST_P(TorchvisionWeights, ComeBackBitEqual) {
  const std::string model = GetParam();
  const StateDict dict = read_state_dicts(TANDEM_STATE_DICTS).at(model);
  const TensorFile given = state_dict_file(dict);
  ASSERT_EQ(given.tensors().size(), dict.size());
  write(path("torchvision.safetensors"), given);
  const Outcome imported =
      command({"weights", "import", model, "torchvision.safetensors", "tandem.safetensors"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Outcome exported = command({"weights", "export", "tandem.safetensors", "back.safetensors"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const TensorFile back = read(path("back.safetensors"));
  EXPECT_EQ(back.header.at("__metadata__").at("format"), "pt");
  const auto found = back.tensors();
  EXPECT_EQ(found.size(), dict.size());
  // Compared one by one: a difference must not print megabytes.
  for (const auto& [name, tensor] : given.tensors()) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == tensor) << name;
  }
}

using Weights = RunTest;

TEST_F(Weights, AreNotWrittenOverWhatTheyAreMadeOf) {
  trained("run", set({"train.max_steps=1"}));
  const fs::path best = path("run/checkpoints/best.safetensors");
  fs::copy_file(best, path("weights.safetensors"));
  fs::create_symlink("weights.safetensors", path("link.safetensors"));
  fs::copy_file(TANDEM_TINY_NET, path("tiny_net.toml"));
  const std::vector<std::string> inputs{"weights.safetensors", "tiny_net.toml"};
  const std::vector<std::vector<std::string>> commands{
      {"export", "weights.safetensors", "weights.safetensors"},
      {"export", "weights.safetensors", "./run/../link.safetensors"},
      {"import", "resnet8", "link.safetensors", "weights.safetensors"},
      {"import", "tiny_net.toml", "weights.safetensors", "./tiny_net.toml"}};
  std::vector<std::string> before;
  for (const std::string& input : inputs) before.push_back(read_file(path(input)));
  for (std::vector<std::string> arguments : commands) {
    const std::string out = arguments.back();
    arguments.insert(arguments.begin(), "weights");
    expect_one_message(command(arguments), {"'" + out + "' is read here and would be replaced"});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(read_file(path(inputs[i])) == before[i]) << inputs[i] << " for " << out;
    }
  }
  // Other weights are replaced, as by any program that writes a file.
  EXPECT_EQ(command({"weights", "export", best.string(), "weights.safetensors"}).code, 0);
  EXPECT_FALSE(read_file(path("weights.safetensors")) == before[0]);
}

TEST_F(Weights, ReplaceWeightsAlone) {
  trained("run", set({"train.max_steps=1"}));
  const std::string notes = "# My notes\n";
  write_file(path("README.md"), notes);
  write_file(path("short"), "ab");
  const std::vector<std::string> from{"weights", "export", "run/checkpoints/best.safetensors"};
  for (const char* name : {"README.md", "short"}) {
    std::vector<std::string> words = from;
    words.emplace_back(name);
    expect_one_message(command(words),
                       {fmt::format("'{}' exists and is no safetensors file; choose", name)});
  }
  expect_one_message(command({"weights", "import", "resnet8", "run/checkpoints/best.safetensors",
                              "README.md", "--classes", "4", "--channels", "1"}),
                     {"'README.md' exists and is no safetensors file"});
  EXPECT_EQ(read_file(path("README.md")), notes);
  write_file(path("empty"), "");
  std::vector<std::string> words = from;
  words.emplace_back("empty");
  EXPECT_EQ(command(words).code, 0);
}

// The smallest of each family.
INSTANTIATE_TEST_SUITE_P(Families, TorchvisionWeights,
                         testing::Values("resnet18", "shufflenet_v2_x0_5", "mobilenet_v2",
                                         "efficientnet_b0"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace tandem::cli
