#include "parallel/mpi_test.h"

namespace tandem {
namespace {

TEST(MpiCommunicator, RefusesAMessageOfAnotherSize) {
  Communicator& c = world();
  if (c.size() == 1) return;
  std::vector<float> values(8);
  std::vector<float> fewer(3);
  if (c.rank() == 0) {
    c.send(view(fewer), 1);
    c.send(view(values), 1);
  }
  if (c.rank() == 1) {
    EXPECT_NE(message_of<Error>([&] { c.recv(view(values), 0); }).find("3 elements arrived"),
              std::string::npos);
    // Too long for the buffer: MPI's own words.
    EXPECT_NE(message_of<Error>([&] { c.recv(view(fewer), 0); }).find("MPI_ERR_TRUNCATE"),
              std::string::npos);
  }
  c.barrier();
}

}  // namespace
}  // namespace tandem
