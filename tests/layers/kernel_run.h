#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "layers/layer.h"

namespace tandem {

/// Memory between guard bytes. Its content starts as one repeated byte: 0xff makes every float a
/// NaN.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, unsigned char content);
  std::byte* data();
  /// Whether both guards are as they were.
  bool intact() const;

 private:
  static constexpr std::size_t guard = 128;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// What a layer's kernel is run on.
struct KernelData {
  std::vector<Shape> input_shapes;
  std::vector<std::vector<float>> inputs{};
  std::vector<std::vector<float>> parameters{};
  std::vector<std::vector<float>> buffers{};
  std::vector<float> output_gradient{};
};

/// What came of it.
struct KernelResult {
  std::vector<float> output;
  std::vector<std::vector<float>> buffers;
  std::vector<std::vector<float>> input_gradients{};  ///< empty where not wanted
  std::vector<std::vector<float>> parameter_gradients{};
  bool guards_intact = false;
  bool inputs_untouched = false;

  bool operator==(const KernelResult&) const = default;
};

/// What random layers draw from here.
constexpr StepRandom test_random{.seed = 77, .first_sample = 1000};
constexpr const char* test_layer_name = "block.drop";

struct KernelMode {
  int threads = 1;
  bool training = true;
  bool fixed_statistics = false;  ///< KernelRequest::fixed_statistics
  std::int64_t groups = 1;        ///< KernelRequest::batch_groups
  std::vector<bool> wanted{};     ///< input gradients
  unsigned char content = 0xff;   ///< of all memory before it is written
  /// By input: whether its gradient is gradient_before() before backward, which is to add to it.
  std::vector<bool> adds{};
};

/// By input: whether the layer can add to its gradient on that device.
std::vector<bool> inputs_added_to(const Layer& layer, const AnyContext& context);
/// Small numbers that every precision holds, unlike those beside them.
std::vector<float> gradient_before(std::size_t count);

/// Prepares a kernel, runs it forward and, in training, backward, each tensor and each piece of
/// working memory between guards.
KernelResult run_kernel(const Layer& layer, const KernelData& data, const KernelMode& mode);

}  // namespace tandem
