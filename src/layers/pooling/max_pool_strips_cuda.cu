#include "device/cuda_check.h"
#include "layers/activation_cuda.cuh"
#include "layers/pooling/max_pool_cuda.h"
#include "layers/pooling/max_pool_strips_cuda.cuh"

namespace tandem::cuda_max_pool {
namespace {

/// The largest of K neighbours in a row; those outside the image are the least there is. `start`:
/// the index of the first that counts.
template <typename T, int P, int K>
__device__ __forceinline__ Largest<T, P> largest_of_row(
    const typename Largest<T, P>::Pack (&packs)[K], unsigned start) {
  Largest<T, P> largest;
  largest.begin(packs[0], start);
#pragma unroll
  for (int k = 1; k < K; ++k) largest.offer(packs[k], static_cast<unsigned>(k));
  return largest;
}

/// What becomes of a pack of channels as it is read: nothing, or a normalisation with ReLU.
template <typename T, int P, bool Normalises>
struct PackNorm {
  using Pack = typename Largest<T, P>::Pack;
  float scale[Normalises ? P : 1];
  float shift[Normalises ? P : 1];

  __device__ __forceinline__ PackNorm(const InputNorm& norm, std::int64_t image, int pack) {
    if constexpr (Normalises) {
      const auto group = static_cast<int>(image) / norm.samples;
      const int first = group * norm.apart + pack * P;
#pragma unroll
      for (int i = 0; i < P; ++i) {
        scale[i] = norm.scale[first + i];
        shift[i] = norm.shift[first + i];
      }
    }
  }

  __device__ __forceinline__ Pack operator()(const Pack& pack) const {
    if constexpr (!Normalises) {
      return pack;
    } else {
      constexpr int lanes = Lanes<T>::count;
      Pack made;
#pragma unroll
      for (int word = 0; word < Pack::count; ++word) {
        float values[lanes];
#pragma unroll
        for (int lane = 0; lane < lanes; ++lane) {
          const int i = word * lanes + lane;
          values[lane] = activate<Activation::relu>(
              fmaf(Lanes<T>::get(pack.word[word], lane), scale[i], shift[i]));
        }
        made.word[word] = Lanes<T>::join(values);
      }
      return made;
    }
  }
};

/// K neighbours from (row, column), of which the first lies at `from`.
template <typename T, int P, int K, bool Normalises>
__device__ __forceinline__ void load_row(const Sizes& sizes, int row, int column, const T* from,
                                         const PackNorm<T, P, Normalises>& norm,
                                         typename Largest<T, P>::Pack (&packs)[K]) {
  using Pack = typename Largest<T, P>::Pack;
  const bool inside = within(row, sizes.rows.input);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    packs[k] = Pack::filled(least_word<T>());
    if (inside && within(column + k, sizes.columns.input)) {
      packs[k] = norm(Pack::load(from + k * sizes.channels));
    }
  }
}

/// Windows of K x K at a stride of S; a strip is a column of windows. Each row of the input is
/// first searched alone, since windows one below the other share it.
template <typename T, int P, int K, int S, bool Normalises>
__global__ void __launch_bounds__(Strips::block, Normalises ? 2 : 3)
    forward_strips(Strips strips, Sizes sizes, const T* __restrict__ x, InputNorm input_norm,
                   T* __restrict__ y, std::uint8_t* __restrict__ taken) {
  using Pack = typename Largest<T, P>::Pack;
  constexpr int kept = K - S;  // rows that a window shares with the next
  const Strip strip = own_strip(strips);
  if (!strip.exists) return;
  const PackNorm<T, P, Normalises> norm(input_norm, strip.image, strip.pack);

  const int left = strip.column * S - sizes.columns.padding;
  int row = strip.first * S - sizes.rows.padding;
  const int pitch = sizes.columns.input * sizes.channels;
  const T* from = x + (strip.image * sizes.rows.input + row) * pitch +
                  std::int64_t{left} * sizes.channels + strip.pack * P;
  const int out_pitch = sizes.columns.output * sizes.channels;
  std::int64_t place = (strip.image * sizes.rows.output + strip.first) * out_pitch +
                       std::int64_t{strip.column} * sizes.channels + strip.pack * P;
  // Above the image nothing is larger than anything: the first that counts is in the next row.
  const auto first_column = static_cast<unsigned>(max(0, -left));
  const auto start = [&](int at) { return first_column + (at < 0 ? K : 0); };

  Largest<T, P> lines[K];
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    Pack packs[K];
    load_row<T, P, K>(sizes, row + i, left, from + i * pitch, norm, packs);
    lines[S + i] = largest_of_row<T, P, K>(packs, start(row + i));
  }
  for (int index = strip.first; index < strip.last; ++index) {
    Pack packs[S][K];
#pragma unroll
    for (int i = 0; i < S; ++i) {
      load_row<T, P, K>(sizes, row + kept + i, left, from + (kept + i) * pitch, norm, packs[i]);
    }
#pragma unroll
    for (int i = 0; i < kept; ++i) lines[i] = lines[S + i];
#pragma unroll
    for (int i = 0; i < S; ++i) {
      lines[kept + i] = largest_of_row<T, P, K>(packs[i], start(row + kept + i));
    }
    Largest<T, P> largest = lines[0];
#pragma unroll
    for (int i = 1; i < K; ++i) largest.offer(lines[i], static_cast<unsigned>(i * K));
    largest.values.store(y + place);
    if (taken != nullptr) largest.indices().store(taken + place);
    row += S;
    from += S * pitch;
    place += out_pitch;
  }
}

/// The windows over a group of S x S pixels, the same over each of its pixels, so that which
/// element of which window a pixel is, is known when this is compiled: group (i, j) begins where
/// window (i, j) does. Here [i][j] is i rows above that one and j columns before it.
template <typename T, int P, int K, int S>
struct GroupWindows {
  using Pack = typename Largest<T, P>::Pack;
  using Indices = typename Largest<T, P>::Indices;
  static constexpr int reach = (K + S - 1) / S;
  Pack gradients[reach][reach];
  Indices taken[reach][reach];

  /// Row [i] from window (row, column), whose pack lies at `place`.
  __device__ __forceinline__ void load(int i, int row, int column, const Sizes& sizes,
                                       std::int64_t place, const T* __restrict__ dy,
                                       const std::uint8_t* __restrict__ indices) {
    const bool inside = within(row, sizes.rows.output);
#pragma unroll
    for (int j = 0; j < reach; ++j) {
      gradients[i][j] = Pack::filled(0);
      taken[i][j] = Indices::filled(0);
      if (inside && within(column - j, sizes.columns.output)) {
        gradients[i][j] = Pack::load(dy + place - j * sizes.channels);
        taken[i][j] = Indices::load(indices + place - j * sizes.channels);
      }
    }
  }
  /// To the group below.
  __device__ __forceinline__ void move_down() {
#pragma unroll
    for (int i = reach - 1; i > 0; --i) {
#pragma unroll
      for (int j = 0; j < reach; ++j) {
        gradients[i][j] = gradients[i - 1][j];
        taken[i][j] = taken[i - 1][j];
      }
    }
  }
  /// One word of each of the group's pixels.
  __device__ __forceinline__ void gather(int word, Pack (&pixels)[S * S]) const {
    constexpr int lanes = Lanes<T>::count;
    float sums[S * S][lanes] = {};
#pragma unroll
    for (int k = 0; k < reach * reach * lanes; ++k) {
      const int i = k / lanes / reach;
      const int j = k / lanes % reach;
      const int lane = k % lanes;
      const int at = word * lanes + lane;
      const float gradient = Lanes<T>::get(gradients[i][j].word[word], lane);
      const unsigned index = taken[i][j].word[at / 4] >> at % 4 * 8 & 0xFFU;
#pragma unroll
      for (int pixel = 0; pixel < S * S; ++pixel) {
        const int down = pixel / S + i * S;
        const int across = pixel % S + j * S;
        if (down >= K || across >= K) continue;
        if (index == static_cast<unsigned>(down * K + across)) sums[pixel][lane] += gradient;
      }
    }
#pragma unroll
    for (int pixel = 0; pixel < S * S; ++pixel)
      pixels[pixel].word[word] = Lanes<T>::join(sums[pixel]);
  }
};

/// Windows of K x K at a stride of S; a strip is a column of groups.
template <typename T, int P, int K, int S>
__global__ void __launch_bounds__(Strips::block, K > 2 * S ? 2 : 3)
    backward_strips(Strips strips, Sizes sizes, const T* __restrict__ dy,
                    const std::uint8_t* __restrict__ taken, T* __restrict__ dx) {
  using Windows = GroupWindows<T, P, K, S>;
  const Strip strip = own_strip(strips);
  if (!strip.exists) return;

  Windows windows;
  const int in_pitch = sizes.columns.output * sizes.channels;
  const std::int64_t first_place = strip.image * sizes.rows.output * in_pitch +
                                   std::int64_t{strip.column} * sizes.channels + strip.pack * P;
  const auto load_row = [&](int i, int row) {
    windows.load(i, row, strip.column, sizes, first_place + std::int64_t{row} * in_pitch, dy,
                 taken);
  };
#pragma unroll
  for (int i = 1; i < Windows::reach; ++i) load_row(i - 1, strip.first - i);

  const int left = strip.column * S - sizes.columns.padding;
  int top = strip.first * S - sizes.rows.padding;
  const int pitch = sizes.columns.input * sizes.channels;
  T* to = dx + (strip.image * sizes.rows.input + top) * pitch +
          std::int64_t{left} * sizes.channels + strip.pack * P;
  for (int index = strip.first; index < strip.last; ++index) {
    windows.move_down();
    load_row(0, index);
    typename Windows::Pack pixels[S * S];
#pragma unroll
    for (int word = 0; word < Windows::Pack::count; ++word) windows.gather(word, pixels);
#pragma unroll
    for (int k = 0; k < S * S; ++k) {
      if (!within(top + k / S, sizes.rows.input)) continue;
      if (!within(left + k % S, sizes.columns.input)) continue;
      pixels[k].store(to + k / S * pitch + k % S * sizes.channels);
    }
    top += S;
    to += S * pitch;
  }
}

template <int K, int S>
struct Window {
  static constexpr int kernel = K;
  static constexpr int stride = S;
};
template <typename Use>
void with_window(const Problem& problem, const Use& use) {
  if (problem.kernel == 2) {
    use(Window<2, 2>());
  } else if (problem.stride == 2) {
    use(Window<3, 2>());
  } else {
    use(Window<3, 1>());
  }
}

/// Calls `use(T(), P, window)`, P and the window known when compiling.
template <typename Use>
void with_kernel(const Problem& problem, const Tensor& in, const Tensor& out, const Use& use) {
  with_element_type(in.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(widest_pack({problem.channels}, {&in, &out}), [&](auto width) {
      with_window(problem, [&](auto window) { use(element, width, window); });
    });
  });
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace

bool Problem::has_strips() const {
  const bool known = (kernel == 3 && (stride == 1 || stride == 2)) || (kernel == 2 && stride == 2);
  return known && padding <= 1;
}

namespace {

void forward_normalised(CUstream_st* stream, const Problem& problem, const Tensor& x,
                        const InputNorm& norm, const Tensor& y, std::uint8_t* taken) {
  with_element_type(x.dtype(), [&](auto element) {
    using T = decltype(element);
    constexpr int P = full_pack<T>;
    TANDEM_CHECK(problem.kernel == 3 && problem.stride == 2 && problem.channels % P == 0 &&
                     norm.activation == Activation::relu,
                 "these maxima cannot normalise their input");
    const Strips strips = plan_strips(problem.batch, problem.out_rows, problem.out_columns,
                                      problem.channels / P, problem.multiprocessors);
    forward_strips<T, P, 3, 2, true><<<strips.blocks(), Strips::block, 0, stream>>>(
        strips, sizes_of(problem), static_cast<const T*>(x.raw()), norm, static_cast<T*>(y.raw()),
        taken);
  });
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace

void forward(CUstream_st* stream, const Problem& problem, const Tensor& x, const InputNorm& norm,
             const Tensor& y, std::uint8_t* taken) {
  if (norm.scale != nullptr) return forward_normalised(stream, problem, x, norm, y, taken);
  with_kernel(problem, x, y, [&](auto element, auto width, auto window) {
    using T = decltype(element);
    using Is = decltype(window);
    constexpr int P = decltype(width)::value;
    const Strips strips = plan_strips(problem.batch, problem.out_rows, problem.out_columns,
                                      problem.channels / P, problem.multiprocessors);
    forward_strips<T, P, Is::kernel, Is::stride, false>
        <<<strips.blocks(), Strips::block, 0, stream>>>(strips, sizes_of(problem),
                                                        static_cast<const T*>(x.raw()), norm,
                                                        static_cast<T*>(y.raw()), taken);
  });
}

void backward(CUstream_st* stream, const Problem& problem, const Tensor& dy,
              const std::uint8_t* taken, const Tensor& dx) {
  const auto groups = [&](std::int64_t extent) {
    return (extent - 1 + problem.padding) / problem.stride + 1;
  };
  with_kernel(problem, dy, dx, [&](auto element, auto width, auto window) {
    using T = decltype(element);
    using Is = decltype(window);
    constexpr int P = decltype(width)::value;
    const Strips strips = plan_strips(problem.batch, groups(problem.rows), groups(problem.columns),
                                      problem.channels / P, problem.multiprocessors);
    backward_strips<T, P, Is::kernel, Is::stride><<<strips.blocks(), Strips::block, 0, stream>>>(
        strips, sizes_of(problem), static_cast<const T*>(dy.raw()), taken,
        static_cast<T*>(dx.raw()));
  });
}

}  // namespace tandem::cuda_max_pool
