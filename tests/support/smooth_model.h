#pragma once

namespace tandem {

/// The model file of a residual network without a kink. With ReLU two runs that differ in a sum's
/// last bit may be a hundred times further apart a step later: seen was an input of ReLU at 4e-7 in
/// one and at -1e-6 in the other.
inline constexpr const char* smooth_model_text = R"(
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
)";

}  // namespace tandem
