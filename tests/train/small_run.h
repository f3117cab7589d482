#pragma once

#include <string>

#include "base/config_table.h"
#include "graph/model_file.h"
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

/// A residual network for the data of small_run() without a kink. With ReLU two runs that differ in
/// a sum's last bit may be a hundred times further apart a step later: seen was an input of ReLU at
/// 4e-7 in one and at -1e-6 in the other.
inline Graph smooth_graph(const RunConfig& config, int classes) {
  return parse_model(R"(
node = [
  {name = "conv1", op = "conv2d", out = 16, kernel = 3, padding = 1},
  {name = "bn1", op = "batch_norm"},
  {name = "silu", op = "silu"},
  {name = "layer1.conv1", op = "conv2d", out = 16, kernel = 3, padding = 1},
  {name = "layer1.bn1", op = "batch_norm"},
  {name = "layer1.silu", op = "silu"},
  {name = "layer1.conv2", op = "conv2d", out = 16, kernel = 3, padding = 1},
  {name = "layer1.bn2", op = "batch_norm"},
  {name = "layer1.add", op = "add", from = ["layer1.bn2", "silu"]},
  {name = "layer1.silu2", op = "silu"},
  {name = "layer2.conv1", op = "conv2d", out = 32, kernel = 3, stride = 2, padding = 1},
  {name = "layer2.bn1", op = "batch_norm"},
  {name = "layer2.silu", op = "silu"},
  {name = "layer2.conv2", op = "conv2d", out = 32, kernel = 3, padding = 1},
  {name = "layer2.bn2", op = "batch_norm"},
  {name = "layer2.down", op = "conv2d", out = 32, kernel = 1, stride = 2, from = "layer1.silu2"},
  {name = "layer2.down_bn", op = "batch_norm"},
  {name = "layer2.add", op = "add", from = ["layer2.bn2", "layer2.down_bn"]},
  {name = "layer2.silu2", op = "silu"},
  {name = "layer3.conv", op = "conv2d", out = 64, kernel = 3, stride = 2, padding = 1},
  {name = "layer3.bn", op = "batch_norm"},
  {name = "layer3.silu", op = "silu"},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                     "smooth.toml",
                     {.classes = classes,
                      .channels = config.data.transform.channels,
                      .size = config.data.transform.size,
                      .dropout = config.dropout});
}

}  // namespace tandem
