#include "layers/depthwise/depthwise_strips_cuda.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::cuda_depthwise {
namespace {

constexpr int warp = 32;
/// Eight pairs of two-byte elements are a 32-byte sector, which two tiles should not share.
constexpr int sector_pairs = 8;
/// A chunk reads a few rows of its neighbours again: shorter ones only where the device has nothing
/// else to do.
constexpr int good_chunk_rows = 14;
constexpr int least_chunk_rows = 4;
/// Waves of work that make the last, partly filled one cheap.
constexpr int good_waves = 6;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// How well a block of `width` of all `pairs` and of `lanes` strips uses what it reads. Strips
/// beside each other share columns, which a block reads once; a tile should take whole cache lines.
double locality(std::int64_t pairs, std::int64_t width, std::int64_t lanes) {
  double lines = 1.0;
  if (width < pairs && width < 4 * sector_pairs) lines = width < 2 * sector_pairs ? 0.9 : 0.96;
  return lines / (1.0 + 0.25 / static_cast<double>(lanes));
}

/// Sets tiles, pairs and lanes so that few threads of a block's warps are idle.
void choose_block(StripPlan& plan, std::int64_t pairs) {
  double best = 0;
  for (std::int64_t tiles = 1; tiles <= ceil_div(pairs, sector_pairs); ++tiles) {
    const std::int64_t width = tiles == 1 ? pairs : round_up(ceil_div(pairs, tiles), sector_pairs);
    if (width > block_threads) continue;
    const std::int64_t used_tiles = ceil_div(pairs, width);
    for (std::int64_t lanes = 1; lanes * width <= block_threads; ++lanes) {
      const std::int64_t threads = lanes * width;
      // Small blocks leave more partial sums and read their weights for less work.
      const double size = threads * 2 > block_threads ? 1.0 : 0.8;
      const double used = static_cast<double>(pairs * lanes) /
                          static_cast<double>(used_tiles * round_up(threads, warp));
      const double score = size * used * locality(pairs, width, lanes);
      if (score <= best * 1.01) continue;
      best = score;
      plan.tiles = static_cast<int>(used_tiles);
      plan.pairs = static_cast<int>(width);
      plan.lanes = static_cast<int>(lanes);
    }
  }
}

}  // namespace

StripPlan plan_strips(const StripKernel& kernel, int batch, int rows, int columns, int channels,
                      int multiprocessors) {
  StripPlan plan{};
  choose_block(plan, channels / 2);
  plan.strips = static_cast<int>(ceil_div(columns, kernel.columns));

  const std::int64_t resident =
      std::int64_t{block_threads} * kernel.resident_blocks * multiprocessors;
  const std::int64_t threads = std::int64_t{batch} * plan.strips * plan.tiles * plan.pairs;
  const std::int64_t for_waves =
      std::min(ceil_div(good_waves * resident, threads), ceil_div(rows, good_chunk_rows));
  const std::int64_t for_filling =
      std::min(ceil_div(resident, threads), ceil_div(rows, least_chunk_rows));
  plan.chunk_rows = static_cast<int>(ceil_div(rows, std::max(for_waves, for_filling)));
  plan.chunks = static_cast<int>(ceil_div(rows, plan.chunk_rows));
  const std::int64_t items = std::int64_t{batch} * plan.strips * plan.chunks;
  TANDEM_CHECK(items * plan.tiles < (std::int64_t{1} << 30), "{} strips are too many", items);
  plan.items = static_cast<int>(items);

  // Threads that go on to further items need not read their weights again.
  const std::int64_t waves = kernel.one_wave ? 1 : good_waves;
  const std::int64_t most =
      std::max<std::int64_t>(1, waves * kernel.resident_blocks * multiprocessors / plan.tiles);
  const std::int64_t blocks = ceil_div(items, plan.lanes);
  const std::int64_t rounds = ceil_div(blocks, most);
  plan.blocks = static_cast<int>(
      ceil_div(blocks, kernel.one_wave ? rounds : std::min<std::int64_t>(rounds, 8)));
  return plan;
}

}  // namespace tandem::cuda_depthwise
