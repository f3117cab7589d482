#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/placement/placement.h"

namespace tandem {

/// What a placement was chosen for: it is a good one where all of this is the same. Facts by name,
/// in a fixed order, the model's name first.
using PlacementKey = std::vector<std::pair<std::string, std::string>>;

/// What `tandem tune` found to be fastest, and `tandem launch --ranks-per-gpu auto` takes.
struct TunedPlacement {
  Placement placement{};
  int loader_workers = 1;  ///< data.workers of each process
  /// Training throughput over all devices: of this placement and of one rank on each device with
  /// the whole batch. Equal where one rank is the choice.
  double images_per_second = 0.0;
  double one_rank_images_per_second = 0.0;
  int hosts = 1;       ///< that it was measured on
  std::string date{};  ///< "2026-05-06T07:08:09Z"

  bool operator==(const TunedPlacement&) const = default;
};

/// Chosen placements, kept between runs: one small JSON file for each key in one folder. Whoever
/// writes last wins; a file appears whole or not at all.
class PlacementStore {
 public:
  /// The folder need not exist.
  explicit PlacementStore(std::filesystem::path folder);
  /// placements/ below cache_folder(). Throws InputError where the environment names no such
  /// folder.
  static PlacementStore of_user();

  /// The file of that key, whether it exists or not.
  std::filesystem::path file(const PlacementKey& key) const;
  /// Nothing where there is no choice for the key. A damaged file is told in a warning and ignored.
  std::optional<TunedPlacement> find(const PlacementKey& key) const;
  /// Throws SystemError or InputError where the file cannot be written.
  void save(const PlacementKey& key, const TunedPlacement& choice) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tandem
