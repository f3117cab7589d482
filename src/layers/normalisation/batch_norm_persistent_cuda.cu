#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"
#include "layers/normalisation/persistent_parts_cuda.cuh"

namespace tandem {
namespace {

/// What a block does to its parts. No __restrict__: y may be x.
template <typename T, int V, Activation A, bool Residual>
class Forward {
 public:
  using Value = WaitingPack<T, V>;
  static constexpr int unroll = 4;

  /// Of a tile's channels.
  struct Table {
    alignas(16) float scales[channel_sums::max_columns];
    alignas(16) float shifts[channel_sums::max_columns];
  };

  __device__ __forceinline__ Forward(const PersistentTiles& plan, const T* x, const T* residual,
                                     T* y, std::uint8_t* passes, float* partials)
      : memory_(PersistentMemory<T, V>::of(plan)),
        tiles_(plan.rows),
        slots_(plan.slots),
        x_(x),
        residual_(residual),
        y_(y),
        passes_(passes),
        partials_(partials),
        pivots_(partials + std::int64_t{2} * plan.rows.chunks * plan.rows.period) {}

  __device__ __forceinline__ int* owned() const { return memory_.owned; }

  /// Stores the part's sums, and keeps the rows that it begins with.
  __device__ __forceinline__ void sum(const TilePlace& place) const {
    float first[V] = {};
    float second[V] = {};
    if (place.inside) {
      const T* const from = x_ + place.pack * V;
      const auto pivot = Value::load(from);
      // The first row may be overwritten before another block is done with the sums.
      if (place.chunk == 0 && place.lane == 0) {
#pragma unroll
        for (int i = 0; i < V; ++i) pivots_[place.pack * V + i] = pivot.get(i);
      }
      const auto add = [&](const Value& value) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float d = value.get(i) - pivot.get(i);
          first[i] += d;
          second[i] = fmaf(d, d, second[i]);
        }
      };
      const PartRows rows(tiles_, place);
      const int kept = min(rows.count(), slots_);
      Value in[unroll];
      rows.template forward<unroll>(
          0, kept, [&](int u, int, std::int64_t at) { in[u] = Value::load_once(from + at); },
          [&](int u, int k, std::int64_t) {
            memory_.slots[k * sum_threads] = in[u];
            add(in[u]);
          });
      rows.template forward<unroll>(
          kept, rows.count(), [&](int u, int, std::int64_t at) { in[u] = Value::load(from + at); },
          [&](int u, int, std::int64_t) { add(in[u]); });
    }
    channel_sums::store_block<V>(tiles_, place, first, second, memory_.sums, partials_);
  }

  /// From the sums of all of the tile's parts; the first of these stores what others read.
  __device__ __forceinline__ void find_table(const TilePlace& place, const StatisticsFinish& finish,
                                             Table& table) const {
    const BatchNormStatistics& to = finish.to;
    const int begin = first_channel(place);
    const int end = min(begin + tiles_.width * V, tiles_.channels);
    // What this thread's channel needs beside the sums is on its way together with those.
    const int mine = begin + static_cast<int>(threadIdx.x);
    float weight = 0.0F;
    float bias = 0.0F;
    float pivot = 0.0F;
    RunningStatistics old{};
    if (mine < end) {
      weight = to.weight[mine];
      bias = to.bias[mine];
      pivot = __ldcg(pivots_ + mine);
      if (place.chunk == 0) old = load_running(to, mine);
    }
    channel_sums::sum_blocks<V>(
        tiles_, begin, end, partials_, memory_.sums,
        [&](int channel, double total, double squares) {
          const ChannelMoments moments = moments_about(
              static_cast<double>(pivot), total * finish.per_row, squares * finish.per_row);
          const ChannelTable of =
              channel_table(static_cast<float>(moments.mean), static_cast<float>(moments.variance),
                            to.epsilon, weight, bias);
          table.scales[channel - begin] = of.scale;
          table.shifts[channel - begin] = of.shift;
          if (place.chunk != 0) return;
          store_table(to.table, channel, of);
          store_running(finish, channel, old, moments);
        });
    __syncthreads();
  }

  /// The part's results; `is_kept`: whether sum() saw it last.
  __device__ __forceinline__ void normalise(const TilePlace& place, const Table& table,
                                            bool is_kept) const {
    if (!place.inside) return;
    float scale[V];
    float shift[V];
    const int column = place.pack * V - first_channel(place);
    load_floats<V>(table.scales + column, scale);
    load_floats<V>(table.shifts + column, shift);
    Value in[unroll];
    Value also[Residual ? unroll : 1];
    const auto load_residual = [&](int u, std::int64_t at) {
      if constexpr (Residual) also[u] = Value::load(residual_ + place.pack * V + at);
    };
    const auto store = [&](int u, int, std::int64_t at) {
      float out[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float normal = fmaf(in[u].get(i), scale[i], shift[i]);
        out[i] = activate<A>(Residual ? normal + also[Residual ? u : 0].get(i) : normal);
      }
      const auto result = Value::of(out);
      result.store(y_ + place.pack * V + at);
      if constexpr (Residual && has_passes<V, A>) {
        if (passes_ != nullptr) passes_[(place.pack * V + at) / V] = passes_of<A>(result);
      }
    };
    const PartRows rows(tiles_, place);
    const int kept = is_kept ? min(rows.count(), slots_) : 0;
    rows.template backward<unroll>(
        kept, rows.count(),
        [&](int u, int, std::int64_t at) {
          in[u] = Value::load_once(x_ + place.pack * V + at);
          load_residual(u, at);
        },
        store);
    rows.template backward<unroll>(
        0, kept,
        [&](int u, int k, std::int64_t at) {
          load_residual(u, at);
          in[u] = memory_.slots[k * sum_threads];
        },
        store);
  }

 private:
  __device__ __forceinline__ int first_channel(const TilePlace& place) const {
    return place.tile * tiles_.width * V;
  }

  PersistentMemory<T, V> memory_;
  const RowTiles& tiles_;
  int slots_;
  const T* x_;
  const T* residual_;
  T* y_;
  std::uint8_t* passes_;
  float* partials_;
  float* pivots_;
};

template <typename T, int V, Activation A, bool Residual>
__global__ void __launch_bounds__(sum_threads, 1)
    forward_kernel(PersistentTiles plan, const T* x, StatisticsFinish finish, ChannelSums work,
                   const T* residual, T* y, std::uint8_t* passes) {
  using Part = Forward<T, V, A, Residual>;
  __shared__ typename Part::Table table;
  const Part part(plan, x, residual, y, passes, work.partials);
  for_parts(
      plan.rows, work.counters, part.owned(), [&](const TilePlace& place) { part.sum(place); },
      [&](const TilePlace& place, bool is_kept) {
        part.find_table(place, finish, table);
        part.normalise(place, table, is_kept);
      });
}

}  // namespace

void batch_norm_persistent_forward(CudaContext& context, const PersistentTiles& plan,
                                   const Tensor& x, const Tensor& residual, Activation activation,
                                   const Tensor& y, std::uint8_t* passes,
                                   const BatchNormStatistics& statistics,
                                   const BatchNormWork& work) {
  with_element_type(x.dtype(), [&](auto element) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = full_pack<T>;
      constexpr Activation A = decltype(chosen)::value;
      auto* kernel = &forward_kernel<T, V, A, false>;
      if (residual.defined()) kernel = &forward_kernel<T, V, A, true>;
      launch_persistent(context, plan, kernel, plan, static_cast<const T*>(x.raw()),
                        finish_of(statistics), channel_sums_of(work),
                        static_cast<const T*>(residual.raw()), static_cast<T*>(y.raw()), passes);
    });
  });
}

}  // namespace tandem
