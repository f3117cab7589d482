#pragma once

#include <algorithm>
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
  std::vector<std::vector<float>> buffers;  ///< in training all groups', one's behind the other's
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

/// What a rank's buffer begins with where the first one's begins with `value`: not what another's
/// does, and above zero where that is.
constexpr float buffer_of_rank(float value, std::int64_t rank) {
  return value + 0.25F * static_cast<float>(rank);
}

/// The buffers of so many ranks, as ForwardArgs has them: each in a piece of memory with those of
/// the same name of the others.
class RankBuffers {
 public:
  /// Each rank begins with other values (buffer_of_rank()). `make`: a tensor of f32, of a shape and
  /// with values.
  template <typename Make>
  RankBuffers(const std::vector<BufferSpec>& specs, const std::vector<std::vector<float>>& values,
              std::int64_t ranks, const Make& make)
      : ranks_(ranks) {
    for (const BufferSpec& spec : specs) apart_ = std::max(apart_, spec.shape.elements());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      std::vector<float> all;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        all.resize(static_cast<std::size_t>(rank * apart_));
        for (const float value : values[i]) all.push_back(buffer_of_rank(value, rank));
      }
      pieces_.push_back(make(Shape{static_cast<std::int64_t>(all.size())}, all));
      first_.emplace_back(pieces_.back().raw(), specs[i].shape);
    }
  }

  const std::vector<Tensor>& first() const { return first_; }
  std::int64_t apart() const { return ranks_ == 1 ? 0 : apart_; }
  const std::vector<Tensor>& pieces() const { return pieces_; }
  /// By buffer, of what is in the pieces, what is the ranks'.
  std::vector<std::vector<float>> of_ranks(const std::vector<std::vector<float>>& pieces) const {
    std::vector<std::vector<float>> found(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        const auto from = pieces[i].begin() + rank * apart_;
        found[i].insert(found[i].end(), from, from + first_[i].elements());
      }
    }
    return found;
  }

 private:
  std::int64_t ranks_;
  std::int64_t apart_ = 0;
  std::vector<Tensor> pieces_;
  std::vector<Tensor> first_;
};

/// By input: whether the layer can add to its gradient on that device.
std::vector<bool> inputs_added_to(const Layer& layer, const AnyContext& context);
/// Small numbers that every precision holds, unlike those beside them.
std::vector<float> gradient_before(std::size_t count);

/// Prepares a kernel, runs it forward and, in training, backward, each tensor and each piece of
/// working memory between guards.
KernelResult run_kernel(const Layer& layer, const KernelData& data, const KernelMode& mode);

}  // namespace tandem
