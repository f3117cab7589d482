#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/program.h"

namespace tandem::cli {

/// One line of metrics.jsonl.
struct Record {
  std::string event;
  std::map<std::string, double> numbers;  ///< booleans as 0 and 1
  std::map<std::string, std::string> texts;

  double operator[](const std::string& key) const { return numbers.at(key); }
};

/// All records of a run's folder; a line that is no JSON object fails the test.
std::vector<Record> read_metrics(const std::filesystem::path& folder);
std::vector<Record> read_metrics(const std::filesystem::path& folder, const std::string& event);

/// The loss of every train record by its step. A step that is recorded twice fails the test.
std::map<int, double> train_losses(const std::filesystem::path& folder);

/// Steps of the step checkpoints of a run, ascending.
std::vector<int> checkpoint_steps(const std::filesystem::path& folder);
std::filesystem::path checkpoint(const std::filesystem::path& folder, int step);

/// Expects the same tensors, bit for bit, and the same metadata in two files.
void expect_same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);
/// The largest |a - b| / max(|a|) over a tensor, over all f32 tensors of two files.
double largest_difference(const std::filesystem::path& a, const std::filesystem::path& b);
/// ||a - b|| / ||a|| over all f32 tensors of two files together.
double relative_difference(const std::filesystem::path& a, const std::filesystem::path& b);

/// A test with a folder of its own, in which commands run, and a config of a run that takes a
/// fraction of a second: 32 steps of resnet8 at 8 pixels on synthetic data of four classes, one
/// compute thread, every step recorded.
class RunTest : public testing::Test {
 protected:
  RunTest();

  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// tandem train CONFIG --out OUT and further arguments, on `ranks` ranks.
  std::vector<std::string> train_command(const std::string& out,
                                         const std::vector<std::string>& more = {},
                                         int ranks = 1) const;
  Outcome train(const std::string& out, const std::vector<std::string>& more = {},
                int ranks = 1) const;
  /// The same, which must succeed.
  void trained(const std::string& out, const std::vector<std::string>& more = {},
               int ranks = 1) const;
  Outcome command(const std::vector<std::string>& arguments, int ranks = 1) const;

  /// The assignment that chooses the model of support/smooth_model.h, for runs that are compared
  /// though they round otherwise.
  std::string smooth_model() const;

 private:
  TemporaryFolder folder_;
};

/// Arguments "--set a --set b ...".
std::vector<std::string> set(const std::vector<std::string>& assignments,
                             std::vector<std::string> more = {});

/// Of a run of `endless`: hours, so that however long a busy machine takes for what a test does
/// meanwhile, the run does not end by itself.
constexpr int endless_epochs = 1'000'000;
constexpr int endless_steps = 8 * endless_epochs;  ///< with RunTest's config as it is
/// Arguments of a run that is to be stopped from outside, with no checkpoint at an epoch's end.
std::vector<std::string> endless(const std::vector<std::string>& assignments = {});

}  // namespace tandem::cli
