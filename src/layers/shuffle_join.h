#pragma once

#include <array>

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// How the units of ShuffleNet V2 join their two branches (Ma et al. 2018, figure 3): the channels
/// of both in turn, y[.., 2c] = a[.., c], y[.., 2c + 1] = b[.., c]. That is a concatenation and a
/// channel shuffle of two groups in one pass. a may have more channels than b: its first ones are
/// taken, which is the half of a unit's input that its branch leaves alone. Inputs: a, b.
class ShuffleJoin : public Layer {
 public:
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "shuffle_join"; }
  std::size_t arity() const override { return 2; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool can_add_to(std::size_t /*input*/, const AnyContext& /*context*/) const override {
    return true;
  }
  /// Of a as many channels as b has.
  LayerTraffic traffic(std::span<const Shape> inputs, DType dtype) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;
};

/// `rows` pixels; a has `channels_a` channels, b `channels_b`, the result twice the latter.
struct ShuffleJoinShape {
  std::int64_t rows = 0;
  std::int64_t channels_a = 0;
  std::int64_t channels_b = 0;
};
void shuffle_join_forward(CpuContext& context, const ShuffleJoinShape& shape, const Tensor& a,
                          const Tensor& b, const Tensor& output);
void shuffle_join_forward(CudaContext& context, const ShuffleJoinShape& shape, const Tensor& a,
                          const Tensor& b, const Tensor& output);
/// The inputs' gradients, which may be undefined. Each overwritten (zero where the channel was left
/// out), or added to.
struct ShuffleJoinBackward {
  Tensor output_gradient;
  std::array<Tensor, 2> gradients;
  std::array<bool, 2> add;
};
void shuffle_join_backward(CpuContext& context, const ShuffleJoinShape& shape,
                           const ShuffleJoinBackward& args);
void shuffle_join_backward(CudaContext& context, const ShuffleJoinShape& shape,
                           const ShuffleJoinBackward& args);

}  // namespace tandem
