#include "layers/normalisation/resident_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace tandem {
namespace {

/// Of a device without clusters, and of one with them.
constexpr ResidentClusters single{.of_blocks = {132}, .small_blocks = 528};
constexpr ResidentClusters clustered{.of_blocks = {132, 66, 33, 16}, .small_blocks = 528};

std::optional<ResidentTiles> tiles_of(std::int64_t rows, std::int64_t channels, int element_bytes,
                                      const ResidentClusters& clusters, std::int64_t groups = 1) {
  return make_resident_tiles({.rows = rows, .channels = channels, .groups = groups}, element_bytes,
                             clusters);
}

/// How often each element is kept by some thread.
std::vector<int> visits(const ResidentTiles& tiles, int element_bytes) {
  std::vector<int> counts(static_cast<std::size_t>(tiles.rows) *
                          static_cast<std::size_t>(tiles.channels));
  const int kept = resident_bytes / (tiles.pack * element_bytes);
  for (int tile = 0; tile < tiles.tiles; ++tile) {
    for (int block = 0; block < tiles.blocks; ++block) {
      for (int thread = 0; thread < tiles.threads; ++thread) {
        const int pack = tile * tiles.width + thread % tiles.width;
        for (int k = 0; k < kept; ++k) {
          const int row = (k * tiles.blocks + block) * tiles.lanes + thread / tiles.width;
          if (pack >= tiles.packs || row >= tiles.rows) continue;
          const int first = row * tiles.channels + pack * tiles.pack;
          for (int i = 0; i < tiles.pack; ++i) ++counts[static_cast<std::size_t>(first + i)];
        }
      }
    }
  }
  return counts;
}

TEST(ResidentTiles, HoldEveryElementOnce) {
  for (const int element_bytes : {2, 4}) {
    for (const std::int64_t channels : {2, 6, 8, 24, 58, 72, 116, 232}) {
      for (const std::int64_t rows : {1, 5, 128, 513, 2048, 5000, 8192, 9000, 16384}) {
        const auto tiles = tiles_of(rows, channels, element_bytes, clustered);
        if (!tiles) continue;
        EXPECT_LE(tiles->tiles * tiles->blocks, 132);
        EXPECT_LE(tiles->width * tiles->pack * element_bytes, resident_row_bytes);
        const std::vector<int> counts = visits(*tiles, element_bytes);
        EXPECT_TRUE(std::ranges::all_of(counts, [](int count) { return count == 1; }))
            << rows << " rows of " << channels << " channels of " << element_bytes << " bytes";
      }
    }
  }
}

TEST(ResidentTiles, BlocksGrowWithTheRows) {
  EXPECT_EQ(tiles_of(128, 512, 2, clustered)->blocks, 1);
  EXPECT_EQ(tiles_of(512, 256, 2, clustered)->blocks, 1);
  EXPECT_EQ(tiles_of(2048, 128, 2, clustered)->blocks, 4);
  EXPECT_EQ(tiles_of(8192, 64, 2, clustered)->blocks, 8);
  // Half a sector a row leaves a block twice the rows.
  EXPECT_EQ(tiles_of(8192, 64, 2, clustered)->width, 2);
  EXPECT_EQ(tiles_of(16384, 64, 2, clustered)->width, 1);
}

TEST(ResidentTiles, GroupsHaveTilesOfTheirOwn) {
  const auto one = tiles_of(512, 256, 2, clustered);
  const auto four = tiles_of(512, 256, 2, clustered, 4);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(one->groups, 1);
  EXPECT_EQ(four->groups, 4);
  EXPECT_EQ(four->rows, one->rows);
  EXPECT_EQ(four->tiles, one->tiles);
  EXPECT_EQ(four->blocks, one->blocks);
  EXPECT_TRUE(tiles_of(128, 512, 2, clustered, 4));
  EXPECT_TRUE(tiles_of(1024, 512, 2, clustered, 8)) << "in two turns";
  EXPECT_FALSE(tiles_of(1024, 512, 2, clustered, 9)) << "more clusters than run in two turns";
}

TEST(ResidentTiles, AreOfSmallBlocksWhereSeveralGroupsHaveFewRows) {
  EXPECT_EQ(tiles_of(64, 960, 2, clustered)->threads, 512) << "one group";
  EXPECT_EQ(tiles_of(64, 960, 2, clustered, 2)->threads, 512) << "all run at once";
  EXPECT_EQ(tiles_of(1024, 640, 2, clustered, 4)->threads, 512) << "too many rows, in two turns";
  for (const auto& [rows, channels, groups] : {std::tuple{64, 960, 8}, std::tuple{256, 576, 8},
                                               std::tuple{1, 512, 16}, std::tuple{64, 1280, 8}}) {
    for (const ResidentClusters& device : {single, clustered}) {
      const auto tiles = tiles_of(rows, channels, 2, device, groups);
      ASSERT_TRUE(tiles) << rows << " rows of " << channels << " channels";
      EXPECT_EQ(tiles->threads, 128);
      EXPECT_EQ(tiles->blocks, 1);
      const std::vector<int> counts = visits(*tiles, 2);
      EXPECT_TRUE(std::ranges::all_of(counts, [](int count) { return count == 1; }));
    }
  }
  EXPECT_FALSE(tiles_of(64, 1280, 2, clustered, 16)) << "more than run in two turns";
}

TEST(ResidentTiles, TakeOneTurnWhereTheyCan) {
  // One block that holds all it can, rather than two that hold half as much and take two turns.
  const auto full = tiles_of(1024, 512, 2, clustered, 4);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->blocks, 1);
  const auto half = tiles_of(1024, 512, 2, clustered, 2);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->blocks, 2);
}

TEST(ResidentTiles, HoldEveryElementOnceInTwoTurns) {
  for (const auto& [rows, channels, groups] :
       {std::tuple{1024, 640, 4}, std::tuple{2048, 576, 2}, std::tuple{8192, 256, 2}}) {
    const auto tiles = tiles_of(rows, channels, 2, clustered, groups);
    ASSERT_TRUE(tiles) << rows << " rows of " << channels << " channels in " << groups << " groups";
    EXPECT_EQ(tiles->threads, 512);
    EXPECT_GT(tiles->tiles * tiles->blocks * groups, 132);
    const std::vector<int> counts = visits(*tiles, 2);
    EXPECT_TRUE(std::ranges::all_of(counts, [](int count) { return count == 1; }));
  }
  EXPECT_FALSE(tiles_of(2048, 1152, 2, clustered)) << "one group takes a single turn";
}

TEST(ResidentTiles, OneBlockWithoutClusters) {
  EXPECT_EQ(tiles_of(128, 512, 2, single)->blocks, 1);
  EXPECT_TRUE(tiles_of(2048, 128, 2, single));
  EXPECT_FALSE(tiles_of(2049, 128, 2, single));
}

TEST(ResidentTiles, NothingForWhatDoesNotFit) {
  EXPECT_FALSE(tiles_of(128, 57, 2, clustered)) << "no packs";
  EXPECT_FALSE(tiles_of(16385, 64, 2, clustered)) << "too many rows";
  EXPECT_FALSE(tiles_of(8192, 512, 2, clustered)) << "more clusters than run at once";
}

}  // namespace
}  // namespace tandem
