#include "layers/pooling/pool2d.h"

namespace tandem {
namespace {

LayerPtr pool_from_config(PoolKind kind, const ConfigTable& table) {
  constexpr std::int64_t most = 65536;
  Window window;
  window.kernel = table.get_int("kernel", 1, most);
  window.stride = table.get_int_or("stride", window.kernel, 1, most);
  window.padding = table.get_int_or("padding", 0, 0, window.kernel / 2);
  return std::make_shared<Pool2d>(kind, window);
}

}  // namespace

LayerPtr Pool2d::max_from_config(const ConfigTable& table) {
  return pool_from_config(PoolKind::max, table);
}

LayerPtr Pool2d::average_from_config(const ConfigTable& table) {
  return pool_from_config(PoolKind::average, table);
}

Shape Pool2d::output_shape(std::span<const Shape> inputs) const {
  require_image(inputs[0]);
  return windowed_shape(window_, inputs[0], inputs[0][3]);
}

std::unique_ptr<LayerKernel> Pool2d::prepare(AnyContext& context,
                                             const KernelRequest& request) const {
  const PoolGeometry geometry{.kind = pool_,
                              .input = request.inputs[0],
                              .output = request.output,
                              .rows = window_.kernel,
                              .columns = window_.kernel,
                              .stride = window_.stride,
                              .padding = window_.padding};
  return std::visit([&](auto& device) { return make_pool2d_kernel(device, geometry, request); },
                    context);
}

LayerPtr GlobalAveragePool::from_config(const ConfigTable& table) {
  return std::make_shared<GlobalAveragePool>(table.get_bool_or("keep_image", false));
}

Shape GlobalAveragePool::output_shape(std::span<const Shape> inputs) const {
  require_image(inputs[0]);
  if (keep_image_) return {inputs[0][0], 1, 1, inputs[0][3]};
  return {inputs[0][0], inputs[0][3]};
}

std::unique_ptr<LayerKernel> GlobalAveragePool::prepare(AnyContext& context,
                                                        const KernelRequest& request) const {
  const Shape& input = request.inputs[0];
  const PoolGeometry geometry{.kind = PoolKind::average,
                              .input = input,
                              .output = {input[0], 1, 1, input[3]},
                              .rows = input[1],
                              .columns = input[2]};
  return std::visit([&](auto& device) { return make_pool2d_kernel(device, geometry, request); },
                    context);
}

}  // namespace tandem
