#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

/// A "train" record of metrics.jsonl (docs/metrics.md). What is missing or null is NaN.
struct TrainRecord {
  std::int64_t step = 0;
  double elapsed = 0.0;  ///< seconds of training and evaluation since the file's first record
  double epoch = 0.0;
  double loss = 0.0;
  double top1 = 0.0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;  ///< NaN where gradients are not clipped
  double samples = 0.0;
  double seconds = 0.0;
  double images_per_second = 0.0;
  double data_wait_seconds = 0.0;
  double exposed_communication_seconds = 0.0;  ///< NaN in old runs on a GPU
  // NaN on a CPU, and where the GPU does not tell.
  double sm_activity = 0.0;
  double tensor_activity = 0.0;
  double dram_activity = 0.0;
  double watts = 0.0;  ///< mean power over the time that the GPUs' counters are of
};

/// An "evaluation" record.
struct EvaluationRecord {
  std::int64_t step = 0;
  double elapsed = 0.0;
  double epoch = 0.0;
  double loss = 0.0;
  double top1 = 0.0;
  double top5 = 0.0;
  double seconds = 0.0;
};

/// A "bad_samples" record.
struct BadSamplesRecord {
  std::int64_t step = 0;
  double elapsed = 0.0;
  double skipped = 0.0;   ///< times since the run began, all its records so far together
  double distinct = 0.0;  ///< samples so far
};

/// The "end" record of a run that ended and was not resumed.
struct EndRecord {
  std::string ending;  ///< "finished", "early_stop" or "stopped"
  std::int64_t step = 0;
  std::string reason;  ///< empty for a finished run
};

/// Names and values as text, in the order of the file.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What a run's folder tells of it.
struct RunHistory {
  std::filesystem::path folder;
  std::string name;
  std::vector<TrainRecord> train;  ///< steps ascend; later records supersede earlier ones
  std::vector<EvaluationRecord> evaluations;
  std::vector<BadSamplesRecord> bad_samples;
  std::optional<EndRecord> end;  ///< nothing: it runs still, or was killed or failed
  Facts environment;             ///< of the last "start" record
  int starts = 0;
  Facts config;                    ///< config.toml with dotted keys, values as TOML
  std::vector<std::string> notes;  ///< one line for each thing that could not be read
};

/// Reads `folder`/metrics.jsonl and config.toml. Lines that are no records are left out and noted;
/// so is a missing or damaged config. Half a last line, which a running or killed run leaves, is
/// left out. Throws InputError where there is no metrics.jsonl or no record in it.
RunHistory read_run(const std::filesystem::path& folder);

/// Reads several runs. Their names are their folders', or the whole paths where two folders share
/// one. Throws InputError where a folder is given twice.
std::vector<RunHistory> read_runs(std::span<const std::filesystem::path> folders);

}  // namespace tandem
