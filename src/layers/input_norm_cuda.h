#pragma once

#include "layers/activation.h"

namespace tandem {

/// What an input is normalised with as it is read, where its maker left that to do
/// (layers/convolution/deferred_norm.h): activation(scale * x + shift), rounded to x's type.
/// Without a scale x is read as it is stored; depthwise convolutions, whose makers always have an
/// activation, go by that. Made by input_norm_of(). Included by sources only.
struct InputNorm {
  Activation activation = Activation::none;
  const float* scale = nullptr;  ///< by channel, 16-byte aligned
  const float* shift = nullptr;
  int apart = 0;    ///< floats from one group of samples to the next, a multiple of four
  int samples = 1;  ///< of a group
};

}  // namespace tandem
