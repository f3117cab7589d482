#pragma once

#include <cstddef>
#include <cstdint>

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// Sums over the samples of a batch that count.
struct LossSums {
  double loss = 0.0;
  std::int64_t samples = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    samples += other.samples;
    top1 += other.top1;
    top5 += other.top5;
    return *this;
  }
};

/// What the outputs for a batch of N samples should be: one label each, or, where samples are
/// mixed, two.
struct Targets {
  Tensor labels;           ///< i32 (N), each in [0, K)
  Tensor second_labels{};  ///< i32 (N), each in [0, K); undefined where nothing is mixed
  /// f32 (N), 0 to 1: what `labels` count, the second labels having the rest. Defined where they
  /// are.
  Tensor weights{};

  bool mixed() const { return second_labels.defined(); }
};

/// Softmax cross-entropy against smoothed labels (Szegedy et al. 2016) of mixed samples (Zhang et
/// al. 2018): loss = -sum over k of q_k log softmax(logits)_k,
/// q = (1 - smoothing) (w one_hot(label) + (1 - w) one_hot(second label)) + smoothing / K,
/// with w = 1 where nothing is mixed.
/// Returns the sum over the first `valid` samples, and how many have the label of the larger weight
/// (the first one where they are equal) among the one and five largest logits (equal logits are
/// ranked by index; a NaN logit counts as a miss).
///
/// Logits (N, K), f32 on the CPU, any floating type on a device; gradient likewise, or undefined
/// where none is wanted: d(mean over the N samples)/d(logits). `scratch` has
/// softmax_cross_entropy_scratch(N) bytes of the context's memory, for this call alone; a CPU needs
/// none. Throws Error for a label or weight out of range.
LossSums softmax_cross_entropy(AnyContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient,
                               std::byte* scratch);

LossSums softmax_cross_entropy(CpuContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient,
                               std::byte* scratch);
LossSums softmax_cross_entropy(CudaContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient,
                               std::byte* scratch);

/// The same, only enqueued on a device: there labels and weights are not checked, but one out of
/// range makes the loss and the sample's gradient NaN. `sums`, f32 (4) in the context's memory,
/// gets loss, samples, top1 and top5; the gradient is multiplied by *gradient_scale, there too,
/// where it is not null.
void softmax_cross_entropy_into(AnyContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch);
void softmax_cross_entropy_into(CpuContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch);
void softmax_cross_entropy_into(CudaContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch);

/// Bytes of scratch for a batch of N samples on any device, 256-byte aligned.
constexpr std::size_t softmax_cross_entropy_scratch(std::int64_t batch) {
  return 256 + static_cast<std::size_t>(batch) * 16;  // sums, and what each sample adds to them
}

}  // namespace tandem
