#include "layers/registry.h"

#include <array>

#include "layers/add.h"
#include "layers/batch_norm.h"
#include "layers/conv2d.h"
#include "layers/conv_bn.h"
#include "layers/linear.h"
#include "layers/pool2d.h"
#include "layers/relu.h"

namespace tandem {

std::span<const LayerKind> layer_kinds() {
  static const std::array kinds{
      LayerKind{"add", &Add::from_config},
      LayerKind{"average_pool", &Pool2d::average_from_config},
      LayerKind{"batch_norm", &BatchNorm::from_config},
      LayerKind{"conv2d", &Conv2d::from_config},
      LayerKind{"conv_bn", &ConvBn::from_config},
      LayerKind{"global_average_pool", &GlobalAveragePool::from_config},
      LayerKind{"linear", &Linear::from_config},
      LayerKind{"max_pool", &Pool2d::max_from_config},
      LayerKind{"relu", &Relu::from_config},
  };
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

}  // namespace tandem
