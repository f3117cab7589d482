#include "layers/registry.h"

#include <array>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/channel_scale.h"
#include "layers/channel_slice.h"
#include "layers/convolution/conv2d.h"
#include "layers/convolution/conv_bn.h"
#include "layers/dropout.h"
#include "layers/linear/linear.h"
#include "layers/normalisation/batch_norm.h"
#include "layers/pooling/pool2d.h"
#include "layers/shuffle_join.h"

namespace tandem {

std::span<const LayerKind> layer_kinds() {
  static const std::array kinds{
      LayerKind{"add", &Add::from_config},
      LayerKind{"average_pool", &Pool2d::average_from_config},
      LayerKind{"batch_norm", &BatchNorm::from_config},
      LayerKind{"channel_scale", &ChannelScale::from_config},
      LayerKind{"channel_slice", &ChannelSlice::from_config},
      LayerKind{"conv2d", &Conv2d::from_config},
      LayerKind{"conv_bn", &ConvBn::from_config},
      LayerKind{"dropout", &Dropout::from_config<Dropout::Unit::element>},
      LayerKind{"global_average_pool", &GlobalAveragePool::from_config},
      LayerKind{"linear", &Linear::from_config},
      LayerKind{"max_pool", &Pool2d::max_from_config},
      LayerKind{"relu", &ActivationLayer::from_config<Activation::relu>},
      LayerKind{"relu6", &ActivationLayer::from_config<Activation::relu6>},
      LayerKind{"shuffle_join", &ShuffleJoin::from_config},
      LayerKind{"sigmoid", &ActivationLayer::from_config<Activation::sigmoid>},
      LayerKind{"silu", &ActivationLayer::from_config<Activation::silu>},
      LayerKind{"stochastic_depth", &Dropout::from_config<Dropout::Unit::image>},
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
