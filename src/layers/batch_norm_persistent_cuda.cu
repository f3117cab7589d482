#include "layers/batch_norm_finish_cuda.cuh"
#include "layers/batch_norm_plan_cuda.cuh"
#include "layers/persistent_parts_cuda.cuh"

namespace tandem {
namespace {

/// No __restrict__: y may be x.
template <typename T, int V, Activation A, bool Residual>
__global__ void __launch_bounds__(sum_threads, 1)
    forward_kernel(PersistentTiles plan, const T* x, StatisticsFinish finish, ChannelSums work,
                   const T* residual, T* y, std::uint8_t* passes) {
  constexpr int unroll = 4;
  __shared__ __align__(16) float scales[channel_sums::max_columns];
  __shared__ __align__(16) float shifts[channel_sums::max_columns];
  const auto memory = PersistentMemory<T, V>::of(plan);
  const RowTiles& tiles = plan.rows;
  float* const partials = work.partials;
  float* const pivots = partials + std::int64_t{2} * tiles.chunks * tiles.period;
  using Value = WaitingPack<T, V>;

  const auto sum = [&](const TilePlace& place) {
    float first[V] = {};
    float second[V] = {};
    if (place.inside) {
      const T* const from = x + place.pack * V;
      const auto pivot = Value::load(from);
      // The first row may be overwritten before another block is done with the sums.
      if (place.chunk == 0 && place.lane == 0) {
#pragma unroll
        for (int i = 0; i < V; ++i) pivots[place.pack * V + i] = pivot.get(i);
      }
      const auto add = [&](const Value& value) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float d = value.get(i) - pivot.get(i);
          first[i] += d;
          second[i] = fmaf(d, d, second[i]);
        }
      };
      const PartRows rows(tiles, place);
      const int kept = min(rows.count(), plan.slots);
      Value in[unroll];
      rows.template forward<unroll>(
          0, kept, [&](int u, int, std::int64_t at) { in[u] = Value::load_once(from + at); },
          [&](int u, int k, std::int64_t) {
            memory.slots[k * sum_threads] = in[u];
            add(in[u]);
          });
      rows.template forward<unroll>(
          kept, rows.count(), [&](int u, int, std::int64_t at) { in[u] = Value::load(from + at); },
          [&](int u, int, std::int64_t) { add(in[u]); });
    }
    channel_sums::store_block<V>(tiles, place, first, second, memory.sums, partials);
  };

  const auto use = [&](const TilePlace& place, bool is_kept) {
    const BatchNormStatistics& to = finish.to;
    const int begin = place.tile * tiles.width * V;
    const int end = min(begin + tiles.width * V, tiles.channels);
    // What this thread's channel needs beside the sums is on its way together with those.
    const int mine = begin + static_cast<int>(threadIdx.x);
    float weight = 0.0F;
    float bias = 0.0F;
    float pivot = 0.0F;
    RunningStatistics old{};
    if (mine < end) {
      weight = to.weight[mine];
      bias = to.bias[mine];
      pivot = __ldcg(pivots + mine);
      if (place.chunk == 0) old = load_running(to, mine);
    }
    channel_sums::sum_blocks<V>(
        tiles, begin, end, partials, memory.sums,
        [&](int channel, double total, double squares) {
          const ChannelMoments moments = moments_about(
              static_cast<double>(pivot), total * finish.per_row, squares * finish.per_row);
          const ChannelTable table =
              channel_table(static_cast<float>(moments.mean), static_cast<float>(moments.variance),
                            to.epsilon, weight, bias);
          scales[channel - begin] = table.scale;
          shifts[channel - begin] = table.shift;
          if (place.chunk != 0) return;
          store_table(to.table, channel, table);
          store_running(finish, channel, old, moments);
        });
    __syncthreads();
    if (!place.inside) return;
    float scale[V];
    float shift[V];
    const int column = place.pack * V - begin;
    load_floats<V>(scales + column, scale);
    load_floats<V>(shifts + column, shift);
    Value in[unroll];
    Value also[Residual ? unroll : 1];
    const auto load_residual = [&](int u, std::int64_t at) {
      if constexpr (Residual) also[u] = Value::load(residual + place.pack * V + at);
    };
    const auto store = [&](int u, std::int64_t at) {
      float out[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float normal = fmaf(in[u].get(i), scale[i], shift[i]);
        out[i] = activate<A>(Residual ? normal + also[Residual ? u : 0].get(i) : normal);
      }
      const auto result = Value::of(out);
      result.store(y + place.pack * V + at);
      if constexpr (Residual && has_passes<V, A>) {
        if (passes != nullptr) passes[(place.pack * V + at) / V] = passes_of<A>(result);
      }
    };
    const PartRows rows(tiles, place);
    const int kept = is_kept ? min(rows.count(), plan.slots) : 0;
    rows.template backward<unroll>(
        kept, rows.count(),
        [&](int u, int, std::int64_t at) {
          in[u] = Value::load_once(x + place.pack * V + at);
          load_residual(u, at);
        },
        [&](int u, int, std::int64_t at) { store(u, at); });
    rows.template backward<unroll>(
        0, kept,
        [&](int u, int k, std::int64_t at) {
          load_residual(u, at);
          in[u] = memory.slots[k * sum_threads];
        },
        [&](int u, int, std::int64_t at) { store(u, at); });
  };
  for_parts(tiles, work.counters, memory.owned, sum, use);
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
