#pragma once

#include <cstdint>
#include <filesystem>

#include "base/append_file.h"
#include "train/record/json_line.h"

namespace tandem {

/// A run's metrics.jsonl: one JSON object a line. Each line reaches the file at once, so that other
/// programs can follow a run and a killed run loses nothing. Rank 0 alone makes one.
class MetricsWriter {
 public:
  /// Opens for appending and creates the file where it is missing. A last line without its end,
  /// which a killed writer left, is dropped. Throws SystemError where the file cannot be opened.
  explicit MetricsWriter(std::filesystem::path path);

  /// Throws SystemError where the line cannot be written (the disk is full, for instance).
  void write(const JsonLine& record);

  /// Drops the records whose "step" is above `step`, and lines that are no JSON objects (each with
  /// a warning), so that a run resumed at `step` writes every step once. `evaluates`: the run
  /// begins by the evaluation of that step, so that one of it in the file is dropped too, with the
  /// step's records behind it. Records without a "step" stay. The file is replaced atomically; it
  /// is left alone where nothing is to be dropped.
  void resume_at(std::int64_t step, bool evaluates = false);

 private:
  AppendFile file_;
};

}  // namespace tandem
