#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/pool2d_cuda.h"
#include "layers/pool_tiles_cuda.cuh"

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

/// Two neighbours of 16 bits, for which there are instructions.
__device__ __forceinline__ __half2 pair_at(const __half* from) {
  return *reinterpret_cast<const __half2*>(from);
}
__device__ __forceinline__ __nv_bfloat162 pair_at(const __nv_bfloat16* from) {
  return *reinterpret_cast<const __nv_bfloat162*>(from);
}

/// The same for elements of 16 bits and indices of at most as many, two in each instruction: one
/// by one they would take longer than their memory does.
template <typename T, int P>
class LargestOfPairs {
 public:
  __device__ __forceinline__ explicit LargestOfPairs(int first) {
#pragma unroll
    for (int e = 0; e < P; ++e) values_.set(e, -INFINITY);
#pragma unroll
    for (int i = 0; i < P / 2; ++i) taken_[i] = twice(first);
  }
  __device__ __forceinline__ void offer(const Pack<T, P>& pack, int index) {
#pragma unroll
    for (int i = 0; i < P / 2; ++i) {
      const auto largest = pair_at(values_.values + 2 * i);
      // All bits of an element's half where it is to be taken.
      const unsigned mask =
          __hgtu2_mask(pair_at(pack.values + 2 * i), largest) & __heq2_mask(largest, largest);
      auto& bits = reinterpret_cast<unsigned*>(values_.values)[i];
      bits = (reinterpret_cast<const unsigned*>(pack.values)[i] & mask) | (bits & ~mask);
      taken_[i] = (twice(index) & mask) | (taken_[i] & ~mask);
    }
  }
  __device__ __forceinline__ const Pack<T, P>& values() const { return values_; }
  __device__ __forceinline__ int taken(int e) const {
    return static_cast<int>(taken_[e / 2] >> (e % 2 * 16) & 0xFFFFU);
  }

 private:
  static __device__ __forceinline__ unsigned twice(int index) {
    return static_cast<unsigned>(index) * 0x10001U;
  }
  Pack<T, P> values_;
  unsigned taken_[P / 2];
};

template <typename T, int P, typename Index>
using LargestOf = std::conditional_t<sizeof(T) == 2 && P % 2 == 0 && sizeof(Index) == 1,
                                     LargestOfPairs<T, P>, Largest<T, P>>;

/// Windows of K x K, all of whose elements are loaded before the first is used; K = 0: of any size.
template <typename T, int P, int K, typename Index>
__device__ __forceinline__ LargestOf<T, P, Index> find_largest(const MaxPool& pool, int top,
                                                               int left, const T* image) {
  const int width = K > 0 ? K : pool.columns.kernel;
  LargestOf<T, P, Index> largest(max(0, -top) * width + max(0, -left));
  const auto inside = [&](int row, int column) {
    return row >= 0 && row < pool.rows.input && column >= 0 && column < pool.columns.input;
  };
  const auto place = [&](int row, int column) {
    return image + (std::int64_t{row} * pool.columns.input + column) * pool.channels;
  };
  if constexpr (K > 0) {
    Pack<T, P> packs[K * K];
#pragma unroll
    for (int k = 0; k < K * K; ++k) {
      const int row = top + k / K;
      const int column = left + k % K;
      if (inside(row, column)) {
        packs[k] = Pack<T, P>::load(place(row, column));
      } else {
#pragma unroll
        for (int e = 0; e < P; ++e) packs[k].set(e, -INFINITY);
      }
    }
#pragma unroll
    for (int k = 0; k < K * K; ++k) largest.offer(packs[k], k);
  } else {
    const int bottom = min(top + pool.rows.kernel, pool.rows.input);
    const int right = min(left + width, pool.columns.input);
    for (int row = max(top, 0); row < bottom; ++row) {
      for (int column = max(left, 0); column < right; ++column) {
        largest.offer(Pack<T, P>::load(place(row, column)), (row - top) * width + column - left);
      }
    }
  }
  return largest;
}

/// `taken` is null where no backward pass follows.
template <typename T, int P, int K, typename Index>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    max_pool_forward(PoolTiles tiles, MaxPool pool, const T* x, T* y, Index* taken) {
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  const T* image = x + at.image * pool.rows.input * pool.columns.input * pool.channels +
                   std::int64_t{at.pack} * P;
  const auto largest = find_largest<T, P, K, Index>(pool, pool.rows.begin(at.row),
                                                    pool.columns.begin(at.column), image);
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
  __device__ __forceinline__ void load_nothing() {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      gradient.set(e, 0.0F);
      taken.values[e] = 0;
    }
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

/// Windows of K x K at a stride of S. A thread has the S x S pixels over which the same windows
/// lie, so that which element of which window a pixel is, is known when this is compiled; all
/// windows are loaded before the first is used. The tiles are over such groups of pixels.
template <typename T, int P, int K, int S, typename Index>
__global__ void __launch_bounds__(PoolTiles::most_threads)
    max_pool_backward(PoolTiles tiles, MaxPool pool, const T* dy, const Index* taken, T* dx) {
  constexpr int reach = (K + S - 1) / S;
  const PoolPlace at = pool_place(tiles);
  if (!at.inside) return;
  WindowGradient<T, P, Index> windows[reach][reach];
#pragma unroll
  for (int k = 0; k < reach * reach; ++k) {
    const int row = at.row - k / reach;
    const int column = at.column - k % reach;
    WindowGradient<T, P, Index>& window = windows[k / reach][k % reach];
    if (row >= 0 && row < pool.rows.output && column >= 0 && column < pool.columns.output) {
      window.load(window_place(pool, at, P, row, column), dy, taken);
    } else {
      window.load_nothing();
    }
  }
#pragma unroll
  for (int pixel = 0; pixel < S * S; ++pixel) {
    const int row = pool.rows.begin(at.row) + pixel / S;
    const int column = pool.columns.begin(at.column) + pixel % S;
    if (row < 0 || row >= pool.rows.input || column < 0 || column >= pool.columns.input) continue;
    float sums[P] = {};
#pragma unroll
    for (int k = 0; k < reach * reach; ++k) {
      const int down = pixel / S + k / reach * S;
      const int across = pixel % S + k % reach * S;
      if (down < K && across < K) windows[k / reach][k % reach].add_to(sums, down * K + across);
    }
    store_pixel<T, P>(pool, at, row, column, sums, dx);
  }
}

/// Windows of any size. The tiles are over pixels.
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

/// Calls `use` with the integral constant of `value` where that is one of Known, else of 0.
template <int... Known, typename Use>
void with_known(int value, const Use& use) {
  const bool found = ((value == Known && (use(std::integral_constant<int, Known>()), true)) || ...);
  if (!found) use(std::integral_constant<int, 0>());
}

class MaxPoolCuda : public LayerKernel {
 public:
  MaxPoolCuda(CudaContext& context, const PoolGeometry& geometry, const KernelRequest& request)
      : context_(&context),
        geometry_(geometry),
        pool_{.rows = pool_axis(geometry, true),
              .columns = pool_axis(geometry, false),
              .channels = geometry.input[3]},
        training_(request.training),
        wide_index_(geometry.rows * geometry.columns > 256) {}

  KernelMemory memory() const override {
    const std::size_t each = wide_index_ ? sizeof(std::int32_t) : sizeof(std::uint8_t);
    return {.saved = training_ ? static_cast<std::size_t>(geometry_.output.elements()) * each : 0};
  }
  void forward(const ForwardArgs& args) override {
    if (wide_index_) {
      run_forward<std::int32_t>(args);
    } else {
      run_forward<std::uint8_t>(args);
    }
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    if (wide_index_) {
      run_backward<std::int32_t>(args);
    } else {
      run_backward<std::uint8_t>(args);
    }
  }

 private:
  bool is_square() const { return geometry_.rows == geometry_.columns; }

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
      with_known<2, 3>(is_square() ? pool_.rows.kernel : 0, [&](auto kernel) {
        max_pool_forward<T, P, decltype(kernel)::value>
            <<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
                tiles, pool_, static_cast<const T*>(x.raw()), static_cast<T*>(args.output.raw()),
                taken);
      });
    });
  }

  template <typename Index>
  void run_backward(const BackwardArgs& args) {
    const Tensor& dy = args.output_gradient;
    const Tensor& dx = args.input_gradients[0];
    const auto* taken = reinterpret_cast<const Index*>(args.saved);
    const auto is = [&](int kernel, int stride) {
      return is_square() && pool_.rows.kernel == kernel && pool_.rows.stride == stride;
    };
    with_packs<Index>(dy, dx, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const auto launch = [&](auto kernel, const Shape& pixels) {
        const PoolTiles tiles = plan_pool_tiles(pixels, P);
        kernel<<<tiles.blocks, tiles.block(), 0, context_->stream()>>>(
            tiles, pool_, static_cast<const T*>(dy.raw()), taken, static_cast<T*>(dx.raw()));
      };
      if (is(3, 2)) {
        launch(&max_pool_backward<T, P, 3, 2, Index>, groups());
      } else if (is(2, 2)) {
        launch(&max_pool_backward<T, P, 2, 2, Index>, groups());
      } else if (is(3, 1)) {
        launch(&max_pool_backward<T, P, 3, 1, Index>, groups());
      } else {
        launch(&max_pool_backward_any<T, P, Index>, geometry_.input);
      }
    });
  }
  /// The groups of pixels over which the same windows lie, as an image.
  Shape groups() const {
    const auto along = [&](std::int64_t extent) {
      return (extent - 1 + geometry_.padding) / geometry_.stride + 1;
    };
    const Shape& x = geometry_.input;
    return {x[0], along(x[1]), along(x[2]), x[3]};
  }

  CudaContext* context_;
  PoolGeometry geometry_;
  MaxPool pool_;
  bool training_;
  bool wide_index_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_max_pool_kernel(CudaContext& context,
                                                  const PoolGeometry& geometry,
                                                  const KernelRequest& request) {
  return std::make_unique<MaxPoolCuda>(context, geometry, request);
}

}  // namespace tandem
