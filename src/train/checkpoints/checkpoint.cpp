#include "train/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "tensor/host_tensor.h"
#include "train/checkpoints/model_weights.h"
#include "train/checkpoints/safetensors.h"

namespace tandem {
namespace {

constexpr std::string_view format_name = "tandem-checkpoint-1";
constexpr std::string_view classes_key = "classes_fingerprint";
constexpr std::string_view labels_key = "labels_fingerprint";

/// A model of the zoo by its name or by its file, or a file of the user's wherever it lies now.
std::string model_word(const std::string& model) {
  const std::string name = std::filesystem::path(model).filename().string();
  constexpr std::string_view extension = ".toml";
  return name.ends_with(extension) ? name.substr(0, name.size() - extension.size()) : name;
}

template <typename T>
T number(const SafetensorsFile& file, const std::string& key) {
  const std::string& text = file.metadata_at(key);
  const std::optional<T> value = parse_number<T>(text);
  if (!value) {
    input_error("{}: '{}' of {} is no number; use another checkpoint", file.path().string(), text,
                key);
  }
  return *value;
}

/// A count that cannot be negative, small enough for sums and products of counts.
std::int64_t count(const SafetensorsFile& file, const std::string& key) {
  constexpr std::int64_t most = std::int64_t{1} << 48U;
  const auto value = number<std::int64_t>(file, key);
  if (value < 0 || value > most) {
    input_error("{}: {} is no possible {}; use another checkpoint", file.path().string(), value,
                key);
  }
  return value;
}

/// The optimizer's state by parameter, so that a checkpoint does not depend on the arena's layout.
std::string state_name(std::string_view state, const Parameter& parameter) {
  return fmt::format("{}{}.{}", optimizer_prefix, state, parameter.name);
}

float* state_of(const HostTensor& state, const Parameter& parameter) {
  return state.tensor().data<float>() + parameter.offset;
}

template <typename T>
void require_same(const std::filesystem::path& path, std::string_view what, const T& saved,
                  const T& expected) {
  if (saved == expected) return;
  input_error(
      "{} was made with {} {}, this run has {}; resume with the same, as the run's own config.toml "
      "has it, or start a new run with train.init",
      path.string(), what, saved, expected);
}

std::string hexadecimal(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

/// Whether the file's fingerprint is another one. Older checkpoints have none.
bool differs(const SafetensorsFile& file, std::string_view key,
             const std::optional<std::uint64_t>& expected) {
  const auto saved = file.metadata().find(std::string(key));
  return expected && saved != file.metadata().end() && saved->second != hexadecimal(*expected);
}

void require_same_data(const SafetensorsFile& file, const TrainingPosition& expected) {
  const bool classes = differs(file, classes_key, expected.classes);
  if (!classes && !differs(file, labels_key, expected.labels)) return;
  input_error(
      "{} was made with training data of other {}; resume with the same data, or start a new run "
      "with train.init",
      file.path().string(), classes ? "class names" : "labels, or in another order");
}

/// Older checkpoints have none, and a state of another metric says nothing of this one.
void read_early_stop(const SafetensorsFile& file, const TrainingPosition& expected,
                     TrainingPosition& position) {
  position.early_stop_metric = expected.early_stop_metric;
  const auto metric = file.metadata().find("early_stop_metric");
  if (metric == file.metadata().end() || metric->second != expected.early_stop_metric) return;
  position.early_stop = {.best = number<double>(file, "early_stop_best"),
                         .best_step = number<std::int64_t>(file, "early_stop_best_step"),
                         .waited = number<std::int64_t>(file, "early_stop_waited")};
}

/// Older checkpoints have none, nor have those of runs that scale no losses.
std::optional<LossScale> read_loss_scale(const SafetensorsFile& file) {
  if (!file.metadata().contains("loss_scale")) return std::nullopt;
  const LossScale scale{.scale = number<float>(file, "loss_scale"),
                        .good_steps = number<std::int32_t>(file, "loss_scale_good_steps"),
                        .overflows = count(file, "loss_scale_overflows")};
  if (!(scale.scale >= 1.0F && std::isfinite(scale.scale)) || scale.good_steps < 0 ||
      scale.good_steps >= LossScale::growth_interval) {
    input_error("{}: {} after {} good steps is no possible loss scale; use another checkpoint",
                file.path().string(), scale.scale, scale.good_steps);
  }
  return scale;
}

constexpr std::string_view other_recipe =
    "train.freeze or the optimizer's settings are not the checkpoint's; resume with the same, or "
    "start a new run with train.init";

/// The optimizer's state must be there for what this run trains, and for nothing else.
void require_same_trained(const SafetensorsFile& file, const ParameterStore& store,
                          Optimizer& optimizer) {
  std::set<std::string, std::less<>> expected;
  for (const OptimizerState& state : optimizer.state()) {
    for (const Parameter& parameter : store.trained()) {
      const std::string name = state_name(state.name, parameter);
      if (file.find(name) == nullptr) {
        input_error("{} has no {} of '{}', which this run trains: {}", file.path().string(),
                    state.name, parameter.name, other_recipe);
      }
      expected.insert(name);
    }
  }
  for (const NamedTensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with(optimizer_prefix) || expected.contains(tensor.name)) continue;
    input_error("{} has '{}', which this run does not need: {}", file.path().string(), tensor.name,
                other_recipe);
  }
}

void load_optimizer(const SafetensorsFile& file, const ParameterStore& store,
                    Optimizer& optimizer) {
  require_same_trained(file, store, optimizer);
  for (const OptimizerState& state : optimizer.state()) {
    HostTensor host(store.context(), state.tensor);
    for (const Parameter& parameter : store.trained()) {
      const NamedTensor& saved = file.at(state_name(state.name, parameter));
      if (saved.dtype != DType::f32 || saved.shape != parameter.shape) {
        input_error("{}: '{}' is {} {}, expected f32 {}; use a checkpoint of this model",
                    file.path().string(), saved.name, name_of(saved.dtype), saved.shape.text(),
                    parameter.shape.text());
      }
      std::memcpy(state_of(host, parameter), saved.data, saved.bytes());
    }
    host.write_back();
  }
}

SafetensorsMetadata metadata_of(const TrainingPosition& position, const Optimizer& optimizer) {
  SafetensorsMetadata metadata{
      {"format", std::string(format_name)},
      {"model", position.model},
      {"optimizer", std::string(optimizer.kind())},
      {"step", std::to_string(position.step)},
      {"steps_per_epoch", std::to_string(position.steps_per_epoch)},
      {"batches", std::to_string(position.batches)},
      {"evaluated_step", std::to_string(position.evaluated_step)},
      {"best_top1", fmt::format("{}", position.best_top1)},
      {"best_step", std::to_string(position.best_step)},
      {"early_stop_metric", position.early_stop_metric},
      {"early_stop_best", fmt::format("{}", position.early_stop.best)},
      {"early_stop_best_step", std::to_string(position.early_stop.best_step)},
      {"early_stop_waited", std::to_string(position.early_stop.waited)},
      {"seed", std::to_string(position.seed)},
      {"global_batch", std::to_string(position.global_batch)},
      {"samples", std::to_string(position.samples)},
  };
  if (const auto& scale = position.loss_scale) {
    metadata["loss_scale"] = fmt::format("{}", scale->scale);
    metadata["loss_scale_good_steps"] = std::to_string(scale->good_steps);
    metadata["loss_scale_overflows"] = std::to_string(scale->overflows);
  }
  if (position.classes) metadata[std::string(classes_key)] = hexadecimal(*position.classes);
  if (position.labels) metadata[std::string(labels_key)] = hexadecimal(*position.labels);
  return metadata;
}

}  // namespace

bool has_other_classes(const SafetensorsFile& file, std::uint64_t classes) {
  return differs(file, classes_key, classes);
}

CheckpointImage::CheckpointImage(const ParameterStore& store, Optimizer& optimizer,
                                 const TrainingPosition& position, WeightAverage* average)
    : weights_(store, HostCopy::always),
      batches_(position.batches),
      metadata_(metadata_of(position, optimizer)) {
  if (average != nullptr) average_.emplace(average->store(), HostCopy::always);
  for (const OptimizerState& state : optimizer.state()) {
    states_.push_back({state.name, {store.context(), state.tensor, HostCopy::always}});
  }
}

void CheckpointImage::write(const std::filesystem::path& path) const {
  const WeightsExport weights(weights_, batches_);
  std::vector<NamedTensor> tensors = weights.tensors();
  std::optional<WeightsExport> averaged;
  if (average_) {
    averaged = WeightsExport::average(*average_);
    tensors.insert(tensors.end(), averaged->tensors().begin(), averaged->tensors().end());
  }
  for (const State& state : states_) {
    for (const Parameter& parameter : weights_.trained()) {
      tensors.push_back({state_name(state.name, parameter), DType::f32, parameter.shape,
                         state_of(state.values, parameter)});
    }
  }
  write_safetensors(path, tensors, metadata_, WriteChecksum::yes);
}

TrainingPosition load_checkpoint(const std::filesystem::path& path, ParameterStore& store,
                                 Optimizer& optimizer, const TrainingPosition& expected,
                                 WeightAverage* average) {
  const SafetensorsFile file(path);
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != format_name) {
    input_error("{} holds weights but no training state; start from it with train.init instead",
                path.string());
  }
  if (!file.metadata().contains(std::string(safetensors_checksum_key))) {
    input_error("{} has no checksum; use a checkpoint as tandem wrote it", path.string());
  }
  TrainingPosition position;
  position.model = file.metadata_at("model");
  position.step = count(file, "step");
  position.steps_per_epoch = count(file, "steps_per_epoch");
  position.batches = count(file, "batches");
  position.evaluated_step = count(file, "evaluated_step");
  position.best_top1 = number<double>(file, "best_top1");
  // Older checkpoints do not say where.
  if (file.metadata().contains("best_step")) position.best_step = count(file, "best_step");
  read_early_stop(file, expected, position);
  position.loss_scale = read_loss_scale(file);
  position.seed = number<std::uint64_t>(file, "seed");
  position.global_batch = count(file, "global_batch");
  position.samples = count(file, "samples");
  if (model_word(position.model) != model_word(expected.model)) {
    require_same(path, "model.name", position.model, expected.model);
  }
  if (position.model != expected.model) {
    log_warning(
        "{} was made with the model {}, this run has {}: whether both have the same layers only "
        "their parameters show",
        path.string(), position.model, expected.model);
    position.model = expected.model;
  }
  require_same(path, "train.seed", position.seed, expected.seed);
  require_same(path, "train.global_batch", position.global_batch, expected.global_batch);
  require_same(path, "a training set of", position.samples, expected.samples);
  require_same(path, "steps an epoch:", position.steps_per_epoch, expected.steps_per_epoch);
  require_same(path, "the optimizer", file.metadata_at("optimizer"), std::string(optimizer.kind()));
  require_same_data(file, expected);
  position.classes = expected.classes;
  position.labels = expected.labels;

  load_weights(file, store, {.which = WhichWeights::trained});
  if (average != nullptr && has_average(file)) {
    load_weights(file, average->store());
  } else if (average != nullptr) {
    average->start_from(store);
    log_info("{} has no moving average of the weights; it starts from its weights", path.string());
  }
  load_optimizer(file, store, optimizer);
  optimizer.set_steps_taken(position.step);
  return position;
}

}  // namespace tandem
