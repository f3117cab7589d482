#pragma once

#include "data/augment/transform.h"
#include "data/raw_batch.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// What raw batches become.
struct InputSpec {
  int size = 0;      ///< height and width
  int channels = 0;  ///< those of the raw pixels, 1 or 3
  Normalization normalization;

  InputSpec() = default;
  explicit InputSpec(const Transform& transform)
      : size(transform.options().size),
        channels(transform.options().channels),
        normalization(transform.normalization()) {}
};

/// Makes the model's input of a raw batch: crops, mirrors, normalises, erases and mixes in one pass
/// (data/augment/sample_edit.h says in which order), as Transform and mix_into() do on the host,
/// but for the last place of the normalisation. `batch` lies in device memory and is read when the
/// kernel runs; `images` is (B, size, size, channels) of f32, f16 or bf16, dense.
void enqueue_input(CudaContext& context, const RawBatchView& batch, const InputSpec& spec,
                   const Tensor& images);

}  // namespace tandem
