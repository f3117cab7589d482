#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "parallel/mpi_session.h"

// A job whose last rank fails while the others wait for it; failing_rank.sh checks that it ends,
// and how. "abort": the error reaches main(). "unwind": it ends the session on its way. "absent":
// it does not come to where all ranks meet.

namespace tandem {
namespace {

constexpr int last_rank = 2;
constexpr MpiOptions options{.timeout_seconds = 1.0, .meeting_seconds = 2.0};

void fail_on_the_last_rank(const MpiSession& session, std::string_view kind) {
  if (kind == "absent" && process_rank() == last_rank) ::sleep(60);
  const auto world = session.make_world(options);
  if (world->rank() == last_rank) throw Error("this rank fails on purpose");
  world->barrier();
}

int run(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "";
  MpiSession session(argc, argv);
  if (kind == "unwind") fail_on_the_last_rank(session, kind);
  try {
    fail_on_the_last_rank(session, kind);
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
