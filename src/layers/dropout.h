#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// Training only: some of what comes in becomes zero, the rest is scaled so that the expectation
/// stays; evaluation passes everything on. What is one of two kinds:
/// - `dropout`: each element for itself (Hinton et al. 2012)
/// - `stochastic_depth`: each image as a whole (Huang et al. 2016, "row" mode of torchvision), on
///   the branch of a residual sum
/// Key: `rate`, the probability of zero, below 1.
///
/// A draw depends on (seed, the layer's name, the sample's place in the run, the element) alone:
/// element e of a sample is kept where the e-th uniform number of RandomStream(seed ^
/// mix64(hash_text(name)), sample) is at least the rate.
class Dropout : public Layer {
 public:
  enum class Unit : std::uint8_t { element, image };
  Dropout(Unit unit, double rate) : unit_(unit), rate_(rate) {}
  template <Unit U>
  static LayerPtr from_config(const ConfigTable& table) {
    return std::make_shared<Dropout>(U, table.get_real("rate", 0.0, largest_rate));
  }
  static constexpr double largest_rate = 0.99;

  std::string_view kind() const override {
    return unit_ == Unit::element ? "dropout" : "stochastic_depth";
  }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

 private:
  Unit unit_;
  double rate_;
};

/// `units` factors for each of `batch` samples, each of `unit_elements` neighbouring elements.
struct DropoutShape {
  std::int64_t batch = 0;
  std::int64_t units = 1;
  std::int64_t unit_elements = 1;
};
/// factor[sample, unit] = 0, or 1 / (1 - rate) where the unit is kept. `key` is of the layer;
/// of `random` the samples' place alone counts.
void dropout_draw(CpuContext& context, const DropoutShape& shape, float rate, std::uint64_t key,
                  const StepRandom& random, float* factors);
void dropout_draw(CudaContext& context, const DropoutShape& shape, float rate, std::uint64_t key,
                  const StepRandom& random, float* factors);
/// output = input times its unit's factor; also backward. They may be the same.
void dropout_apply(CpuContext& context, const DropoutShape& shape, const float* factors,
                   const Tensor& input, const Tensor& output);
void dropout_apply(CudaContext& context, const DropoutShape& shape, const float* factors,
                   const Tensor& input, const Tensor& output);

}  // namespace tandem
