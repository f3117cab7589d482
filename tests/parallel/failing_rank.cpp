#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "parallel/mpi_session.h"

// A job whose last rank fails while the others wait for it; failing_rank.sh checks that it ends,
// and how. "abort": the error reaches main(). "unwind": it ends the session on its way.

namespace tandem {
namespace {

void fail_on_the_last_rank(Communicator& world) {
  if (world.rank() == world.size() - 1) throw Error("this rank fails on purpose");
  world.barrier();
}

int run(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "";
  MpiSession session(argc, argv);
  const auto world = session.make_world();
  if (kind == "unwind") fail_on_the_last_rank(*world);
  try {
    fail_on_the_last_rank(*world);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    session.abort(3);
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    return tandem::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
