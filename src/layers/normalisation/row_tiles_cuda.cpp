#include "layers/normalisation/row_tiles_cuda.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

/// The largest extent of a grid in y.
constexpr std::int64_t max_chunks = 65535;
/// The same in z.
constexpr std::int64_t max_groups = 65535;

std::int64_t divide_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

}  // namespace

RowTiles make_row_tiles(const BatchNormShape& shape, const RowTileLimits& limits) {
  TANDEM_CHECK(shape.channels > 0 && shape.channels < (std::int64_t{1} << 24),
               "{} channels to normalise", shape.channels);
  // So that kernels can count rows, and a few steps beyond them, in 32 bits.
  TANDEM_CHECK(shape.rows > 0 && shape.rows < (std::int64_t{1} << 30), "{} rows to normalise",
               shape.rows);
  TANDEM_CHECK(shape.groups > 0 && shape.groups <= max_groups, "{} groups to normalise",
               shape.groups);
  RowTiles tiles;
  tiles.groups = static_cast<int>(shape.groups);
  tiles.apart = shape.elements();
  tiles.channels = static_cast<int>(shape.channels);
  while ((tiles.channels << tiles.fold) % limits.pack != 0) ++tiles.fold;
  tiles.period = tiles.channels << tiles.fold;
  tiles.rows = static_cast<int>(shape.rows >> tiles.fold);
  tiles.tail =
      static_cast<int>(shape.rows - (std::int64_t{tiles.rows} << tiles.fold)) * tiles.channels;
  tiles.packs = tiles.period / limits.pack;

  const auto packs = std::int64_t{tiles.packs};
  std::int64_t width = divide_up(packs, divide_up(packs, limits.max_width));
  // An even width keeps the tiles of 16-byte packs on the borders of memory's 32-byte sectors.
  if (width < packs) width += width % 2;
  tiles.width = static_cast<int>(width);
  tiles.tiles = static_cast<int>(divide_up(packs, width));
  tiles.lanes = limits.threads / tiles.width;
  const std::int64_t wanted =
      divide_up(std::int64_t{tiles.rows}, std::int64_t{tiles.lanes} * limits.rows_per_thread);
  const std::int64_t most =
      std::clamp<std::int64_t>(limits.max_blocks / (tiles.tiles * shape.groups), 1, max_chunks);
  tiles.chunks = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
  return tiles;
}

}  // namespace tandem
