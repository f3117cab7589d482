#pragma once

#include <string>

#include "base/config_table.h"
#include "graph/model_file.h"
#include "support/smooth_model.h"
#include "train/run_config.h"

namespace tandem {

/// A run file of resnet8 at 8 pixels on synthetic data; `more` are further lines of [train], and
/// `optimizer` the lines of [optimizer] after its kind.
inline std::string small_run_text(const std::string& more = {},
                                  const std::string& optimizer = "lr = 0.05\nmomentum = 0.9\n") {
  return R"([model]
name = "resnet8"
[data]
kind = "synthetic"
train_size = 96
test_size = 37
height = 8
width = 8
channels = 1
classes = 4
[train]
epochs = 2
global_batch = 16
threads = 1
)" + more +
         "[optimizer]\nkind = \"sgd\"\n" + optimizer;
}

inline RunConfig small_run(const std::string& more = {},
                           const std::string& optimizer = "lr = 0.05\nmomentum = 0.9\n") {
  return read_run_config(ConfigTable::from_text(small_run_text(more, optimizer), "run.toml"));
}

/// The model without a kink, for the data of a run.
inline Graph smooth_graph(const RunConfig& config, int classes) {
  return parse_model(smooth_model_text, "smooth.toml",
                     {.classes = classes,
                      .channels = config.data.transform.channels,
                      .size = config.data.transform.size,
                      .dropout = config.dropout});
}

}  // namespace tandem
