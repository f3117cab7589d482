#pragma once

#include <memory>

#include "parallel/mpi_session.h"

namespace tandem {

/// The communicators that a program of tests runs over, all of them over host memory.
class TestWorlds {
 public:
  virtual ~TestWorlds() = default;
  /// As world() and splitting_world().
  virtual Communicator& world() = 0;
  virtual Communicator* splitting() = 0;
};

/// Collective. Each program links one kind: mpi_test_world.cpp or nccl_test_world.cpp.
std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session);

}  // namespace tandem
