#pragma once

#include "device/any_context.h"
#include "graph/parameters.h"
#include "tensor/host_tensor.h"

namespace tandem {

/// Adds to the biases of normalisations, which moves their outputs away from the kinks of
/// activations. Else a rounding in the first layers decides the sides of activations further on:
/// noise of 1e-3 in the pixels changes the gradients of a fresh MobileNetV2 by 38 %, and of 4e-3 by
/// 0.4 % with a shift of 2.5.
inline void shift_norms(AnyContext& context, ParameterStore& store, float shift) {
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    if (parameter.role != ParameterRole::norm || !parameter.name.ends_with(".bias")) continue;
    HostTensor values(context, store.value(i));
    for (float& value : values.tensor().span<float>()) value += shift;
    values.write_back();
  }
}

}  // namespace tandem
