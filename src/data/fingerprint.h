#pragma once

#include <cstdint>

#include "data/datasets/dataset.h"

namespace tandem {

/// What a data set consists of, as hashes that are the same on every machine. No path counts but
/// the samples' own names, so data may lie elsewhere. Pixels do not count: they would take as long
/// as an epoch.
struct DataFingerprint {
  std::uint64_t classes = 0;  ///< names of the classes, in order
  std::uint64_t labels = 0;   ///< these and every sample's label, in order
  std::uint64_t samples = 0;  ///< these and every sample's name
};

DataFingerprint fingerprint_of(const Dataset& dataset);
/// The first of them alone, which takes no time.
std::uint64_t fingerprint_of_classes(const Dataset& dataset);

}  // namespace tandem
