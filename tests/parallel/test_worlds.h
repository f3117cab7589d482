#pragma once

#include <memory>
#include <vector>

#include "parallel/mpi/mpi_session.h"
#include "parallel/test_patience.h"

namespace tandem {

/// The time-out of the ranks: long enough for what rank 0 does alone. Tests of
/// time-outs have communicators of their own.
inline MpiOptions patient_options() {
  MpiOptions options;
  options.timeout_seconds = patient(120.0);
  return options;
}

/// The communicators that a program of tests runs over, all of them over host memory.
class TestWorlds {
 public:
  virtual ~TestWorlds() = default;
  /// As world() and splitting_world().
  virtual Communicator& world() = 0;
  virtual Communicator* splitting() = 0;
  /// As devices_of_ranks(): by default each rank has one of its own.
  virtual std::vector<std::vector<int>> devices() {
    std::vector<std::vector<int>> ranks;
    for (int rank = 0; rank < world().size(); ++rank) ranks.push_back({rank});
    return ranks;
  }
};

/// Collective. Each program links one kind: mpi_test_world.cpp, nccl_test_world.cpp, or
/// one of colocated/.
std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session);

}  // namespace tandem
