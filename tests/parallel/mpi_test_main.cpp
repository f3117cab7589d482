#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "parallel/mpi/mpi_session.h"
#include "parallel/mpi_test.h"
#include "parallel/test_worlds.h"

namespace tandem {
namespace {

/// Against hangs alone: rank 0 trains whole models in some cases, on machines of any speed.
constexpr unsigned case_seconds = 240;

TestWorlds* worlds_of_tests = nullptr;

/// Says which rank failed where, and ends the job as soon as the ranks may have left step.
class RankListener final : public testing::EmptyTestEventListener {
 public:
  explicit RankListener(const MpiSession& session) : session_(session) {}

 private:
  void OnTestStart(const testing::TestInfo&) override {
    // Unhandled, the alarm ends this process, and mpirun the others: a hang is a failure.
    alarm(case_seconds * test_patience());
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", world().rank(),
                 result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(),
                 result.summary());
    // The case ends early on this rank alone, so that the others would wait for it.
    if (result.fatally_failed()) session_.abort(1);
  }
  void OnTestEnd(const testing::TestInfo&) override { alarm(0); }

  const MpiSession& session_;
};

const char* ranks_told_to_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE"); }

/// A test that runs as N programs of one rank each would prove nothing.
bool started_as_told() {
  const char* expected = ranks_told_to_mpirun();
  if (std::atoi(expected) == world().size()) return true;
  std::fprintf(stderr, "mpirun was told to start %s ranks, the communicator has %d\n", expected,
               world().size());
  return false;
}

int run(const MpiSession& session) {
  const std::unique_ptr<TestWorlds> worlds = make_test_worlds(session);
  worlds_of_tests = worlds.get();
  if (!started_as_told()) return 1;
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world().rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankListener(session));
  std::vector<std::int32_t> failed{RUN_ALL_TESTS()};
  alarm(case_seconds * test_patience());  // for leaving MPI
  world().all_reduce(view(failed), ReduceOp::max);
  return failed[0];
}

}  // namespace

Communicator& world() { return worlds_of_tests->world(); }
Communicator* splitting_world() { return worlds_of_tests->splitting(); }
std::vector<std::vector<int>> devices_of_ranks() { return worlds_of_tests->devices(); }

}  // namespace tandem

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // An exception would leave the other ranks waiting; as a fatal failure it ends the job.
  testing::FLAGS_gtest_catch_exceptions = true;
  if (tandem::ranks_told_to_mpirun() == nullptr) {
    std::fprintf(stderr, "%s: start this by mpirun -n RANKS, as ctest does\n", argv[0]);
    return 1;
  }
  tandem::MpiSession session(argc, argv);
  try {
    const int result = tandem::run(session);
    if (result != 0) session.abort(result);
    return result;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    session.abort(1);
    return 1;
  }
}
