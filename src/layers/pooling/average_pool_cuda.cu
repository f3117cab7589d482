#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/pooling/pool2d_cuda.h"
#include "layers/pooling/pool_tiles_cuda.cuh"

namespace tandem {
namespace {

struct AveragePool {
  PoolAxis rows;
  PoolAxis columns;
  std::int64_t channels;
};

/// How many elements of window `index` lie in the input.
__device__ __forceinline__ int count_inside(const PoolAxis& axis, int index) {
  const int begin = axis.begin(index);
  return min(begin + axis.kernel, axis.input) - max(begin, 0);
}

template <typename T, int P>
__device__ __forceinline__ void add_scaled(const T* from, float factor, float (&sums)[P]) {
  const auto pack = Pack<T, P>::load(from);
#pragma unroll
  for (int e = 0; e < P; ++e) sums[e] += pack.get(e) * factor;
}

template <typename T, int P>
__device__ __forceinline__ void store_sums(const float (&sums)[P], float factor, T* to) {
  Pack<T, P> result;
#pragma unroll
  for (int e = 0; e < P; ++e) result.set(e, sums[e] * factor);
  result.store(to);
}

template <typename T, int P>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    average_pool_forward(PoolTiles tiles, AveragePool pool, const T* x, T* y) {
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  const T* image = x + at.image * pool.rows.input * pool.columns.input * pool.channels +
                   std::int64_t{at.pack} * P;
  const int top = max(pool.rows.begin(at.row), 0);
  const int left = max(pool.columns.begin(at.column), 0);
  const int rows = count_inside(pool.rows, at.row);
  const int columns = count_inside(pool.columns, at.column);
  float sums[P] = {};
  for (int row = top; row < top + rows; ++row) {
    for (int column = left; column < left + columns; ++column) {
      const std::int64_t pixel = std::int64_t{row} * pool.columns.input + column;
      add_scaled<T, P>(image + pixel * pool.channels, 1.0F, sums);
    }
  }
  const std::int64_t pixel =
      (at.image * pool.rows.output + at.row) * pool.columns.output + at.column;
  const float share = 1.0F / (static_cast<float>(rows) * static_cast<float>(columns));
  store_sums<T, P>(sums, share, y + pixel * pool.channels + std::int64_t{at.pack} * P);
}

template <typename T, int P>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    average_pool_backward(PoolTiles tiles, AveragePool pool, const T* dy, T* dx) {
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  const T* image = dy + at.image * pool.rows.output * pool.columns.output * pool.channels +
                   std::int64_t{at.pack} * P;
  const int last_row = min(pool.rows.last_over(at.row), pool.rows.output - 1);
  const int last_column = min(pool.columns.last_over(at.column), pool.columns.output - 1);
  float sums[P] = {};
  for (int row = last_row; pool.rows.covers(row, at.row); --row) {
    for (int column = last_column; pool.columns.covers(column, at.column); --column) {
      const std::int64_t pixel = std::int64_t{row} * pool.columns.output + column;
      const float count = static_cast<float>(count_inside(pool.rows, row)) *
                          static_cast<float>(count_inside(pool.columns, column));
      add_scaled<T, P>(image + pixel * pool.channels, 1.0F / count, sums);
    }
  }
  const std::int64_t pixel = (at.image * pool.rows.input + at.row) * pool.columns.input + at.column;
  store_sums<T, P>(sums, 1.0F, dx + pixel * pool.channels + std::int64_t{at.pack} * P);
}

class AveragePoolCuda : public LayerKernel {
 public:
  AveragePoolCuda(CudaContext& context, const PoolGeometry& geometry)
      : context_(&context),
        geometry_(geometry),
        pool_{.rows = pool_axis(geometry, true),
              .columns = pool_axis(geometry, false),
              .channels = geometry.input[3]} {}

  void forward(const ForwardArgs& args) override {
    const Tensor& x = args.inputs[0];
    with_packs(x, args.output, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const PoolTiles tiles = plan_pool_tiles(geometry_.output, P);
      average_pool_forward<T, P><<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
          tiles, pool_, static_cast<const T*>(x.raw()), static_cast<T*>(args.output.raw()));
    });
  }
  void backward(const BackwardArgs& args) override {
    const Tensor& dy = args.output_gradient;
    const Tensor& dx = args.input_gradients[0];
    if (!dx.defined()) return;
    with_packs(dy, dx, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const PoolTiles tiles = plan_pool_tiles(geometry_.input, P);
      average_pool_backward<T, P><<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
          tiles, pool_, static_cast<const T*>(dy.raw()), static_cast<T*>(dx.raw()));
    });
  }

 private:
  /// Calls `use(T(), width)`.
  template <typename Use>
  void with_packs(const Tensor& from, const Tensor& to, const Use& use) const {
    const int pack = widest_pack({pool_.channels}, {&from, &to});
    with_element_type(from.dtype(), [&](auto element) {
      with_pack_width<decltype(element)>(pack, [&](auto width) { use(element, width); });
    });
    TANDEM_CUDA_CHECK_LAUNCH();
  }

  CudaContext* context_;
  PoolGeometry geometry_;
  AveragePool pool_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_average_pool_kernel(CudaContext& context,
                                                      const PoolGeometry& geometry) {
  return std::make_unique<AveragePoolCuda>(context, geometry);
}

}  // namespace tandem
