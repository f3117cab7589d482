#pragma once

#include "base/config_table.h"
#include "layers/layer.h"
#include "layers/window.h"

namespace tandem {

enum class PoolKind : std::uint8_t { max, average };

/// Maximum or mean of a sliding window; the mean leaves padding out of its count
/// (torch: count_include_pad=False). Keys: `kernel`, `stride` (kernel), `padding` (0).
class Pool2d : public Layer {
 public:
  Pool2d(PoolKind kind, const Window& window) : pool_(kind), window_(window) {}
  static LayerPtr max_from_config(const ConfigTable& table);
  static LayerPtr average_from_config(const ConfigTable& table);

  std::string_view kind() const override {
    return pool_ == PoolKind::max ? "max_pool" : "average_pool";
  }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::string options_text() const override { return window_.text(); }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  PoolKind pool() const { return pool_; }
  const Window& window() const { return window_; }

 private:
  PoolKind pool_;
  Window window_;
};

/// Mean over all rows and columns: (N, H, W, C) to (N, C), or with `keep_image` (false, also its
/// key) to (N, 1, 1, C).
class GlobalAveragePool : public Layer {
 public:
  explicit GlobalAveragePool(bool keep_image = false) : keep_image_(keep_image) {}
  static LayerPtr from_config(const ConfigTable& table);
  std::string_view kind() const override { return "global_average_pool"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

 private:
  bool keep_image_;
};

/// A window of `rows` x `columns`; `output` is (N, H', W', C).
struct PoolGeometry {
  PoolKind kind = PoolKind::max;
  Shape input;
  Shape output;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};
std::unique_ptr<LayerKernel> make_pool2d_kernel(CpuContext& context, const PoolGeometry& geometry,
                                                const KernelRequest& request);
std::unique_ptr<LayerKernel> make_pool2d_kernel(CudaContext& context, const PoolGeometry& geometry,
                                                const KernelRequest& request);

}  // namespace tandem
