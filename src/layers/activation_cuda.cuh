#pragma once

// One element of each activation, for the kernels that apply or fuse them. NaN stays NaN.

#include <nv/target>

#include "layers/activation.h"

namespace tandem {

/// x bounded by [-bound, bound]; NaN stays NaN.
__device__ __forceinline__ float bounded(float x, float bound) {
  float within = x < -bound ? -bound : x;
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80,
                    (asm("max.NaN.f32 %0, %1, %2;"
                         : "=f"(within)
                         : "f"(x), "f"(-bound));
                     asm("min.NaN.f32 %0, %1, %2;"
                         : "=f"(within)
                         : "f"(within), "f"(bound));),
                    (within = within > bound ? bound : within;))
  return within;
}

/// 1 / (1 + e^-x), x clamped to [-87, 87] so that neither the power nor the quotient leaves the
/// range of the fast instructions. Within 2e-6 of the value, relatively, and 5e-7 where |x| < 15:
/// expf would take twice as many instructions, which a kernel at copy speed has no room for.
__device__ __forceinline__ float logistic(float x) {
  constexpr float log2_e = 1.44269504F;
  constexpr float ln_2 = 0.69314718F;
  const float power = bounded(-x, 87.0F);
  const float exponent = power * log2_e;
  const float rounding = fmaf(power, log2_e, -exponent);
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(exponent));
  // As __fdividef(1, ...), which would provide for divisors below any that come up here.
  float quotient;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0F + fmaf(e, rounding * ln_2, e)));
  return quotient;
}

template <Activation A>
__device__ __forceinline__ float activate(float x) {
  if constexpr (A == Activation::relu) {
    return x < 0.0F ? 0.0F : x;
  } else if constexpr (A == Activation::relu6) {
    const float above = x < 0.0F ? 0.0F : x;
    return above > 6.0F ? 6.0F : above;
  } else if constexpr (A == Activation::silu) {
    return x * logistic(x);
  } else if constexpr (A == Activation::sigmoid) {
    return logistic(x);
  } else {
    return x;
  }
}

/// `gradient` times the derivative, found from x where derivative_needs_input(A), else from the
/// result.
template <Activation A>
__device__ __forceinline__ float activation_gradient(float seen, float gradient) {
  if constexpr (A == Activation::relu) {
    return seen > 0.0F ? gradient : 0.0F;
  } else if constexpr (A == Activation::relu6) {
    const float above = seen > 0.0F ? gradient : 0.0F;
    return seen < 6.0F ? above : 0.0F;
  } else if constexpr (A == Activation::silu) {
    const float s = logistic(seen);
    return gradient * (s * (1.0F + seen * (1.0F - s)));
  } else if constexpr (A == Activation::sigmoid) {
    return gradient * (seen * (1.0F - seen));
  } else {
    return gradient;
  }
}

}  // namespace tandem
