#include "layers/normalisation/resident_tiles.h"

#include <span>

namespace tandem {
namespace {

/// 16 bytes of elements where the channels are divisible by those, else two elements, else none.
int pack_of(std::int64_t channels, int element_bytes) {
  const int full = 16 / element_bytes;
  if (channels % full == 0) return full;
  return channels % 2 == 0 ? 2 : 0;
}

/// Blocks of so many threads, of which so many clusters of 1, 2, 4… run at once.
struct Blocks {
  int threads;
  std::span<const int> at_once;
};

/// Those whose clusters take so many turns on the device.
std::optional<ResidentTiles> tiles_in_turns(const BatchNormShape& shape, int element_bytes,
                                            const Blocks& made_of, int turns) {
  const int pack = pack_of(shape.channels, element_bytes);
  if (pack == 0) return std::nullopt;
  const int pack_bytes = pack * element_bytes;
  const std::int64_t packs = shape.channels / pack;

  // Half a sector moves half as much at once, but needs half the blocks.
  for (const int row_bytes : {resident_row_bytes, resident_row_bytes / 2}) {
    const int width = row_bytes / pack_bytes;
    const int lanes = made_of.threads / width;
    const std::int64_t tiles = (packs + width - 1) / width;
    const std::int64_t most_rows = std::int64_t{lanes} * (resident_bytes / pack_bytes);
    // To read and write the second half takes a block longer than to have another one beside it.
    for (const std::int64_t block_rows : {most_rows / 2, most_rows}) {
      int blocks = 1;
      for (const int at_once : made_of.at_once) {
        if (shape.rows <= blocks * block_rows && tiles * shape.groups <= turns * at_once) {
          return ResidentTiles{.pack = pack,
                               .rows = static_cast<int>(shape.rows),
                               .channels = static_cast<int>(shape.channels),
                               .packs = static_cast<int>(packs),
                               .width = width,
                               .lanes = lanes,
                               .tiles = static_cast<int>(tiles),
                               .blocks = blocks,
                               .groups = static_cast<int>(shape.groups),
                               .threads = made_of.threads};
        }
        blocks *= 2;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ResidentTiles> make_resident_tiles(const BatchNormShape& shape, int element_bytes,
                                                 const ResidentClusters& clusters) {
  const Blocks usual{resident_threads, clusters.of_blocks};
  if (shape.groups == 1) return tiles_in_turns(shape, element_bytes, usual, 1);
  const Blocks small{small_resident_threads, {&clusters.small_blocks, 1}};
  for (int turns = 1; turns <= most_resident_turns; ++turns) {
    for (const Blocks& blocks : {usual, small}) {
      if (const auto tiles = tiles_in_turns(shape, element_bytes, blocks, turns)) return tiles;
    }
  }
  return std::nullopt;
}

}  // namespace tandem
