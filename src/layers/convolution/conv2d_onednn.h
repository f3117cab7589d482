#pragma once

#include "device/onednn.h"
#include "layers/convolution/blocked_weights.h"
#include "layers/convolution/conv2d_cpu.h"

namespace tandem {

/// oneDNN's convolutions. It wants its weights in blocks, so they are packed into scratch before
/// each use and the weight gradient is unpacked after. Included by .cpp files only.
class OneDnnConvolution final : public CpuConvolution {
 public:
  OneDnnConvolution(CpuContext& context, const Conv2dOptions& options, const Shape& input,
                    const Shape& output, const Mode& mode);

  std::size_t forward_scratch() const override { return forward_scratch_; }
  std::size_t backward_scratch() const override { return backward_scratch_; }
  void forward(const float* input, const float* weight, const float* bias, float* output,
               std::byte* scratch) override;
  void backward_weights(const float* input, const float* output_gradient, float* weight_gradient,
                        float* bias_gradient, std::byte* scratch) override;
  void backward_data(const float* output_gradient, const float* weight, float* input_gradient,
                     std::byte* scratch) override;

 private:
  /// Plain weights to a primitive's own format or back: nothing to do where the formats are the
  /// same, by a kernel of ours where it knows the format, else by a reorder of oneDNN's.
  struct Packing {
    BlockedWeights blocked;
    onednn::BoundPrimitive reorder;
    std::size_t bytes = 0;

    bool needed() const { return bytes > 0; }
  };
  struct Descs;

  Packing make_packing(const Descs& descs, const dnnl::memory::desc& from,
                       const dnnl::memory::desc& to);
  void make_backward_weights(const Descs& descs,
                             const dnnl::convolution_forward::primitive_desc& forward,
                             const Mode& mode);
  void make_backward_data(const Descs& descs,
                          const dnnl::convolution_forward::primitive_desc& forward);
  /// Where the weights lie for the primitive: packed into `scratch`, or as they are.
  const void* pack(Packing& packing, const float* weight, std::byte* scratch);
  /// The other way, from `scratch`, unless the weights are where they belong.
  void unpack(Packing& packing, const std::byte* scratch, float* weight);
  void reorder(Packing& packing, const void* from, void* to);

  CpuContext* context_;
  onednn::BoundPrimitive forward_;
  onednn::BoundPrimitive backward_data_;
  onednn::BoundPrimitive backward_weights_;
  Packing forward_packing_;
  Packing data_packing_;
  Packing gradient_packing_;
  std::size_t forward_scratch_ = 0;
  std::size_t backward_scratch_ = 0;
};

}  // namespace tandem
