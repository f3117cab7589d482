#pragma once

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "train/ranks/replica_place.h"

// Whole models of the zoo, a few steps on small images, for tests that compare ways to spread the
// same training over ranks.

namespace tandem {

struct Family {
  std::string model;
  bool stochastic_depth = false;
  /// See shift_norms(). Without, what training changes differs by a third, on one rank in another
  /// order of sums too.
  float shift = 0.0F;
  std::vector<std::string> frozen{};  ///< at the bottom, and with trained layers on either side

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.model; }
};

struct Recipe {
  bool synchronised = true;
  bool random = true;
  bool frozen = false;
  bool frozen_statistics = true;
  int folded = 1;  ///< ranks that each process carries
  int accumulate = 1;
  bool mixup = false;
  int global_batch = 16;
};

using FamilyValues = std::map<std::string, std::vector<float>>;

/// What training a family did.
struct FamilyOutcome {
  FamilyValues start;  ///< parameters and running statistics
  FamilyValues end;
  /// All running statistics: at the start, and at the end of each rank, the first one's again.
  std::vector<float> statistics_before{};
  std::vector<std::vector<float>> statistics_of_ranks{};
  std::vector<double> losses{};
  std::set<std::string> reduced{};  ///< parameters in the buckets
};

/// Trains for so many steps. Collective over the place's ranks; ends with a comparison of the
/// replicas' bits.
FamilyOutcome train_family(const Family& family, const Recipe& recipe, const ReplicaPlace& place,
                           int steps);

// Where a program of tests trains is said by the file that it links: family_host.cpp or
// family_cuda.cpp.

/// Collective over world().
FamilyOutcome train_on_ranks(const Family& family, const Recipe& recipe, int steps = 3);
/// The same in this process alone.
FamilyOutcome train_alone(const Family& family, const Recipe& recipe, int steps = 3);

/// The largest of the largest relative difference of a loss and, over all parameters and over the
/// running statistics of each rank, the norm of the difference over the norm of what training
/// changed; infinite where a value is not finite. One rank is compared with each of several.
double difference(const FamilyOutcome& a, const FamilyOutcome& b);

}  // namespace tandem
