#include "parallel/mpi/mpi_session.h"

#include <gtest/gtest.h>

#include <string>

#include "support/message.h"

namespace tandem {
namespace {

TEST(CheckNotAlone, TakesMpisWordForTheLaunchers) {
  const LaunchedJob four{.size = 4, .rank = 0, .variable = "PMI_SIZE"};
  const std::string message = message_of<InputError>([&] { check_not_alone(four, 1); });
  for (const char* part : {"4 processes (PMI_SIZE)", "mpirun", "srun --mpi=pmix"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_NO_THROW(check_not_alone(four, 4));
  EXPECT_NO_THROW(check_not_alone({}, 1));
  EXPECT_NO_THROW(check_not_alone({}, 2));
  // Spawned, or of several programs: MPI's word on how many there are.
  EXPECT_NO_THROW(check_not_alone(four, 2));
}

TEST(MpiSession, IsAloneWithoutALauncher) {
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  EXPECT_FALSE(session.distributed());
  EXPECT_EQ(session.make_world()->name(), "self");
  session.abort(3);  // nobody else to end: returns
}

}  // namespace
}  // namespace tandem
