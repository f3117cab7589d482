#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/pooling/max_pool_cuda.h"
#include "layers/pooling/pool2d_cuda.h"
#include "layers/pooling/pool_tiles_cuda.cuh"

namespace tandem {
namespace {

struct MaxPool {
  PoolAxis rows;
  PoolAxis columns;
  std::int64_t channels;
};

/// The largest elements so far, and which of their window they are: the first of equal ones, and
/// the first NaN before all numbers.
template <typename T, int P>
class Largest {
 public:
  __device__ __forceinline__ explicit Largest(int first) {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      values_.set(e, -INFINITY);
      taken_[e] = first;
    }
  }
  __device__ __forceinline__ void offer(const Pack<T, P>& pack, int index) {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      const float largest = values_.get(e);
      if (!(pack.get(e) <= largest) && !isnan(largest)) {
        values_.values[e] = pack.values[e];
        taken_[e] = index;
      }
    }
  }
  __device__ __forceinline__ const Pack<T, P>& values() const { return values_; }
  __device__ __forceinline__ int taken(int e) const { return taken_[e]; }

 private:
  Pack<T, P> values_;
  int taken_[P];
};

/// Windows of any size; the tiles are over windows. `taken` is null where no backward pass follows.
template <typename T, int P, typename Index>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    max_pool_forward_any(PoolTiles tiles, MaxPool pool, const T* x, T* y, Index* taken) {
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  const T* image = x + at.image * pool.rows.input * pool.columns.input * pool.channels +
                   std::int64_t{at.pack} * P;
  const int top = pool.rows.begin(at.row);
  const int left = pool.columns.begin(at.column);
  const int width = pool.columns.kernel;
  const int bottom = min(top + pool.rows.kernel, pool.rows.input);
  const int right = min(left + width, pool.columns.input);
  Largest<T, P> largest(max(0, -top) * width + max(0, -left));
  for (int row = max(top, 0); row < bottom; ++row) {
    const T* line = image + std::int64_t{row} * pool.columns.input * pool.channels;
    for (int column = max(left, 0); column < right; ++column) {
      largest.offer(Pack<T, P>::load(line + column * pool.channels),
                    (row - top) * width + column - left);
    }
  }
  const std::int64_t pixel =
      (at.image * pool.rows.output + at.row) * pool.columns.output + at.column;
  const std::int64_t place = pixel * pool.channels + std::int64_t{at.pack} * P;
  largest.values().store(y + place);
  if (taken == nullptr) return;
  Pack<Index, P> indices;
#pragma unroll
  for (int e = 0; e < P; ++e) indices.values[e] = static_cast<Index>(largest.taken(e));
  indices.store(taken + place);
}

/// What a window gives to its inputs.
template <typename T, int P, typename Index>
struct WindowGradient {
  Pack<T, P> gradient;
  Pack<Index, P> taken;

  __device__ __forceinline__ void load(std::int64_t place, const T* gradients,
                                       const Index* all_taken) {
    gradient = Pack<T, P>::load(gradients + place);
    taken = Pack<Index, P>::load(all_taken + place);
  }
  /// To the sums of the pixel that is element `index` of the window.
  __device__ __forceinline__ void add_to(float (&sums)[P], int index) const {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      if (static_cast<int>(taken.values[e]) == index) sums[e] += gradient.get(e);
    }
  }
};

/// Where window (row, column) of a thread's image and pack lies.
__device__ __forceinline__ std::int64_t window_place(const MaxPool& pool, const PoolPlace& at,
                                                     int pack_width, int row, int column) {
  const std::int64_t pixel = (at.image * pool.rows.output + row) * pool.columns.output + column;
  return pixel * pool.channels + std::int64_t{at.pack} * pack_width;
}

template <typename T, int P>
__device__ __forceinline__ void store_pixel(const MaxPool& pool, const PoolPlace& at, int row,
                                            int column, const float (&sums)[P], T* dx) {
  Pack<T, P> result;
#pragma unroll
  for (int e = 0; e < P; ++e) result.set(e, sums[e]);
  const std::int64_t pixel = (at.image * pool.rows.input + row) * pool.columns.input + column;
  result.store(dx + pixel * pool.channels + std::int64_t{at.pack} * P);
}

/// The same windows backward; the tiles are over pixels.
template <typename T, int P, typename Index>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    max_pool_backward_any(PoolTiles tiles, MaxPool pool, const T* dy, const Index* taken, T* dx) {
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  const int last_row = min(pool.rows.last_over(at.row), pool.rows.output - 1);
  const int last_column = min(pool.columns.last_over(at.column), pool.columns.output - 1);
  float sums[P] = {};
  WindowGradient<T, P, Index> window;
  for (int row = last_row; pool.rows.covers(row, at.row); --row) {
    for (int column = last_column; pool.columns.covers(column, at.column); --column) {
      window.load(window_place(pool, at, P, row, column), dy, taken);
      window.add_to(sums, (at.row - pool.rows.begin(row)) * pool.columns.kernel + at.column -
                              pool.columns.begin(column));
    }
  }
  store_pixel<T, P>(pool, at, at.row, at.column, sums, dx);
}

cuda_max_pool::Problem problem_of(const CudaContext& context, const PoolGeometry& geometry) {
  const Shape& x = geometry.input;
  return {.batch = x[0],
          .rows = x[1],
          .columns = x[2],
          .out_rows = geometry.output[1],
          .out_columns = geometry.output[2],
          .channels = x[3],
          .kernel = geometry.rows,
          .stride = geometry.stride,
          .padding = geometry.padding,
          .multiprocessors = context.device().multiprocessors};
}

class MaxPoolCuda : public LayerKernel {
 public:
  MaxPoolCuda(CudaContext& context, const PoolGeometry& geometry, const KernelRequest& request)
      : context_(&context),
        geometry_(geometry),
        pool_{.rows = pool_axis(geometry, true),
              .columns = pool_axis(geometry, false),
              .channels = geometry.input[3]},
        problem_(problem_of(context, geometry)),
        strips_(geometry.rows == geometry.columns && problem_.has_strips()),
        training_(request.training),
        left_(request.input_norm),
        wide_index_(geometry.rows * geometry.columns > 256) {
    TANDEM_CHECK(strips_ || !left_, "these maxima cannot normalise their input");
  }

  KernelMemory memory() const override {
    const std::size_t each = wide_index_ ? sizeof(std::int32_t) : sizeof(std::uint8_t);
    return {.saved = training_ ? static_cast<std::size_t>(geometry_.output.elements()) * each : 0};
  }
  void forward(const ForwardArgs& args) override {
    if (strips_) {
      auto* taken = training_ ? reinterpret_cast<std::uint8_t*>(args.saved) : nullptr;
      const InputNorm norm =
          left_ ? input_norm_of(*left_, args.input_norm, problem_.channels, problem_.batch)
                : InputNorm{};
      cuda_max_pool::forward(context_->stream(), problem_, args.inputs[0], norm, args.output,
                             taken);
    } else if (wide_index_) {
      run_forward<std::int32_t>(args);
    } else {
      run_forward<std::uint8_t>(args);
    }
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    if (strips_) {
      cuda_max_pool::backward(context_->stream(), problem_, args.output_gradient,
                              reinterpret_cast<const std::uint8_t*>(args.saved),
                              args.input_gradients[0]);
    } else if (wide_index_) {
      run_backward<std::int32_t>(args);
    } else {
      run_backward<std::uint8_t>(args);
    }
  }

 private:
  /// Calls `use(T(), width)`; packs of indices, too, are of at most 16 bytes.
  template <typename Index, typename Use>
  static void with_packs(const Tensor& x, const Tensor& y, const Use& use) {
    const int pack = widest_pack({x.shape()[3]}, {&x, &y});
    with_element_type(x.dtype(), [&](auto element) {
      constexpr int most = full_pack<Index>;
      with_pack_width<decltype(element)>(std::min(pack, most), [&](auto width) {
        // Wider ones are not asked for; this keeps them from being instantiated.
        use(element, std::integral_constant<int, std::min(decltype(width)::value, most)>());
        TANDEM_CUDA_CHECK_LAUNCH();
      });
    });
  }

  template <typename Index>
  void run_forward(const ForwardArgs& args) {
    const Tensor& x = args.inputs[0];
    auto* taken = training_ ? reinterpret_cast<Index*>(args.saved) : nullptr;
    with_packs<Index>(x, args.output, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const PoolTiles tiles = plan_pool_tiles(geometry_.output, P);
      max_pool_forward_any<T, P><<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
          tiles, pool_, static_cast<const T*>(x.raw()), static_cast<T*>(args.output.raw()), taken);
    });
  }

  template <typename Index>
  void run_backward(const BackwardArgs& args) {
    const Tensor& dy = args.output_gradient;
    const Tensor& dx = args.input_gradients[0];
    const auto* taken = reinterpret_cast<const Index*>(args.saved);
    with_packs<Index>(dy, dx, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const PoolTiles tiles = plan_pool_tiles(geometry_.input, P);
      max_pool_backward_any<T, P><<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
          tiles, pool_, static_cast<const T*>(dy.raw()), taken, static_cast<T*>(dx.raw()));
    });
  }

  CudaContext* context_;
  PoolGeometry geometry_;
  MaxPool pool_;
  cuda_max_pool::Problem problem_;
  bool strips_;
  bool training_;
  std::optional<DeferredNorm> left_;
  bool wide_index_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_max_pool_kernel(CudaContext& context,
                                                  const PoolGeometry& geometry,
                                                  const KernelRequest& request) {
  return std::make_unique<MaxPoolCuda>(context, geometry, request);
}

}  // namespace tandem
