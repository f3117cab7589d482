#include "cli/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/smooth_model.h"
#include "train/checkpoints/checkpoint_store.h"
#include "train/checkpoints/safetensors.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_text = R"([model]
name = "resnet8"

[data]
kind = "synthetic"
train_size = 270
test_size = 70
height = 8
width = 8
channels = 1
classes = 4

[data.augment]
crop_padding = 1
flip = true

[train]
epochs = 4
global_batch = 32
threads = 1
log_every = 1

[optimizer]
kind = "sgd"
lr = 0.1
momentum = 0.9
nesterov = true
weight_decay = 1e-4

[schedule]
kind = "cosine"
warmup_epochs = 0.5
)";

Record parse(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  Record record;
  EXPECT_TRUE(json.is_object()) << line;
  if (!json.is_object()) return record;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) {
      record.texts[key] = value.get<std::string>();
    } else if (value.is_boolean()) {
      record.numbers[key] = value.get<bool>() ? 1.0 : 0.0;
    } else {
      EXPECT_TRUE(value.is_number()) << key << " in " << line;
      record.numbers[key] = value.get<double>();
    }
  }
  record.event = record.texts["event"];
  return record;
}

std::vector<float> values_of(const NamedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  std::memcpy(values.data(), tensor.data, tensor.bytes());
  return values;
}

/// Calls visit(values in a, values in b) for every f32 tensor of two files of the same names.
template <typename Visit>
void for_each_pair(const fs::path& a, const fs::path& b, const Visit& visit) {
  const SafetensorsFile first(a);
  const SafetensorsFile second(b);
  EXPECT_EQ(first.tensors().size(), second.tensors().size());
  for (const NamedTensor& tensor : first.tensors()) {
    if (tensor.dtype == DType::f32) visit(values_of(tensor), values_of(second.at(tensor.name)));
  }
}

}  // namespace

std::vector<Record> read_metrics(const fs::path& folder) {
  const std::string text = read_file(folder / "metrics.jsonl");
  EXPECT_TRUE(text.ends_with('\n')) << folder;
  std::vector<Record> records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) records.push_back(parse(line));
  return records;
}

std::vector<Record> read_metrics(const fs::path& folder, const std::string& event) {
  std::vector<Record> records = read_metrics(folder);
  std::erase_if(records, [&](const Record& record) { return record.event != event; });
  return records;
}

std::map<int, double> train_losses(const fs::path& folder) {
  std::map<int, double> losses;
  for (const Record& record : read_metrics(folder, "train")) {
    const int step = static_cast<int>(record["step"]);
    EXPECT_TRUE(losses.emplace(step, record["loss"]).second) << "step " << step << " comes twice";
  }
  return losses;
}

std::vector<int> checkpoint_steps(const fs::path& folder) {
  std::vector<int> steps;
  for (const StepCheckpoint& each : CheckpointStore(folder / "checkpoints").list()) {
    steps.push_back(static_cast<int>(each.step));
  }
  return steps;
}

fs::path checkpoint(const fs::path& folder, int step) {
  return folder / "checkpoints" / fmt::format("step-{:08}.safetensors", step);
}

void expect_same_checkpoint(const fs::path& a, const fs::path& b) {
  const SafetensorsFile first(a, ReadChecksum::required);
  const SafetensorsFile second(b, ReadChecksum::required);
  EXPECT_EQ(first.metadata(), second.metadata());
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const NamedTensor& tensor : first.tensors()) {
    const NamedTensor& other = second.at(tensor.name);
    ASSERT_EQ(tensor.bytes(), other.bytes()) << tensor.name;
    EXPECT_EQ(std::memcmp(tensor.data, other.data, tensor.bytes()), 0) << tensor.name;
  }
}

double largest_difference(const fs::path& a, const fs::path& b) {
  double largest = 0.0;
  for_each_pair(a, b, [&](const std::vector<float>& x, const std::vector<float>& y) {
    double scale = 0.0;
    double difference = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      scale = std::max(scale, std::abs(static_cast<double>(x[i])));
      difference = std::max(difference, std::abs(static_cast<double>(x[i]) - y[i]));
    }
    if (scale > 0.0) largest = std::max(largest, difference / scale);
  });
  return largest;
}

double relative_difference(const fs::path& a, const fs::path& b) {
  double norm = 0.0;
  double difference = 0.0;
  for_each_pair(a, b, [&](const std::vector<float>& x, const std::vector<float>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = static_cast<double>(x[i]) - y[i];
      norm += static_cast<double>(x[i]) * x[i];
      difference += d * d;
    }
  });
  return std::sqrt(difference / norm);
}

RunTest::RunTest() { write_file(path("run.toml"), config_text); }

std::vector<std::string> RunTest::train_command(const std::string& out,
                                                const std::vector<std::string>& more,
                                                int ranks) const {
  std::vector<std::string> arguments{"train", "run.toml", "--out", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return on_ranks(ranks, arguments);
}

Outcome RunTest::train(const std::string& out, const std::vector<std::string>& more,
                       int ranks) const {
  return run({.command = train_command(out, more, ranks), .folder = root()});
}

void RunTest::trained(const std::string& out, const std::vector<std::string>& more,
                      int ranks) const {
  const Outcome outcome = train(out, more, ranks);
  ASSERT_FALSE(outcome.timed_out) << outcome.err;
  ASSERT_EQ(outcome.code, 0) << outcome.err;
}

Outcome RunTest::command(const std::vector<std::string>& arguments, int ranks) const {
  return run({.command = on_ranks(ranks, arguments), .folder = root()});
}

std::string RunTest::smooth_model() const {
  write_file(path("smooth.toml"), smooth_model_text);
  return "model.name='smooth.toml'";
}

std::vector<std::string> set(const std::vector<std::string>& assignments,
                             std::vector<std::string> more) {
  for (const std::string& assignment : assignments) {
    more.emplace_back("--set");
    more.push_back(assignment);
  }
  return more;
}

std::vector<std::string> endless(const std::vector<std::string>& assignments) {
  return set(assignments, set({fmt::format("train.epochs={}", endless_epochs),
                               fmt::format("train.eval_every={}", endless_epochs),
                               fmt::format("checkpoint.every_epochs={}", endless_epochs)}));
}

}  // namespace tandem::cli
