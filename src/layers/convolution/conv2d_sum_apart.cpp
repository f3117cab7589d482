#include "layers/convolution/conv2d_sum_apart.h"

#include <utility>

#include "base/error.h"
#include "device/arena.h"
#include "layers/activation_cpu.h"

namespace tandem {

SumApartConvolution::SumApartConvolution(CpuContext& context, const Shape& output,
                                         Activation activation,
                                         std::unique_ptr<CpuConvolution> plain)
    : context_(&context),
      elements_(output.elements()),
      activation_(activation),
      bytes_(Arena::align(static_cast<std::size_t>(elements_) * sizeof(float))),
      plain_(std::move(plain)) {}

std::size_t SumApartConvolution::forward_scratch() const {
  return bytes_ + plain_->forward_scratch();
}

void SumApartConvolution::forward(const float* input, const float* weight, const float* bias,
                                  float* output, std::byte* scratch) {
  auto* plain = reinterpret_cast<float*>(scratch);
  plain_->forward(input, weight, bias, plain, scratch + bytes_);
  with_activation(activation_, [&](auto activation) {
#pragma omp parallel for simd schedule(static) num_threads(context_->threads())
    for (std::int64_t i = 0; i < elements_; ++i) {
      output[i] = activate<decltype(activation)::value>(output[i] + plain[i]);
    }
  });
}

void SumApartConvolution::backward_weights(const float* /*input*/, const float* /*output_gradient*/,
                                           float* /*weight_gradient*/, float* /*bias_gradient*/,
                                           std::byte* /*scratch*/) {
  throw Error("weight gradient of a convolution for evaluation");
}

void SumApartConvolution::backward_data(const float* /*output_gradient*/, const float* /*weight*/,
                                        float* /*input_gradient*/, std::byte* /*scratch*/) {
  throw Error("data gradient of a convolution for evaluation");
}

}  // namespace tandem
