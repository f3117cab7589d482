#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace tandem {

/// A test that makes folders of runs by hand.
class ReportTest : public testing::Test {
 protected:
  std::filesystem::path make_run(const std::string& name, const std::string& metrics,
                                 const std::string& config = "[train]\nepochs = 3\n") {
    std::filesystem::path folder = folder_ / name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "metrics.jsonl") << metrics;
    if (!config.empty()) std::ofstream(folder / "config.toml") << config;
    return folder;
  }

  static std::string start(const std::string& host) {
    return R"({"event": "start", "host": ")" + host + R"(", "ranks": 2})" + "\n";
  }
  /// `more`: further fields, ", " at their end.
  static std::string train(int step, const std::string& loss, const std::string& more = "") {
    return R"({"event": "train", "epoch": 1, "step": )" + std::to_string(step) + R"(, "loss": )" +
           loss + ", " + more +
           R"("top1": 0.5, "learning_rate": 0.1, "samples": 64, "seconds": 2.0, )"
           R"("images_per_second": 32.0, "data_wait_seconds": 0.5, )"
           R"("exposed_communication_seconds": 0.25})" +
           "\n";
  }
  static std::string evaluation(int step, const std::string& top1) {
    return R"({"event": "evaluation", "epoch": 1, "step": )" + std::to_string(step) +
           R"(, "loss": 0.75, "top1": )" + top1 + R"(, "top5": 1.0, "seconds": 1.0})" + "\n";
  }

  static std::string bad_samples(int step, int skipped, int distinct) {
    return R"({"event": "bad_samples", "epoch": 1, "step": )" + std::to_string(step) +
           R"(, "skipped": )" + std::to_string(skipped) + R"(, "distinct": )" +
           std::to_string(distinct) + "}\n";
  }
  static std::string end(const std::string& ending, int step, const std::string& reason) {
    return R"({"event": "end", "ending": ")" + ending + R"(", "step": )" + std::to_string(step) +
           R"(, "steps": 100, "reason": ")" + reason + "\"}\n";
  }

  TemporaryFolder folder_;
};

}  // namespace tandem
