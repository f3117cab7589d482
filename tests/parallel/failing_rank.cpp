#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "device/device_error.h"
#include "parallel/mpi/mpi_session.h"

// A job whose last rank fails while the others wait for it; failing_rank.sh checks that it ends,
// and how. "abort": the error reaches main(). "unwind": it ends the session on its way. "killed":
// it is, and the others have met a device's fault before that shows. "absent": it does not come to
// where all ranks meet. "apart": nor does it then, but gives signs of life.
// "stopped" and "late": it does not come to where MPI starts ("late": and a helper of rank 0 is
// stopped).

namespace tandem {
namespace {

constexpr int last_rank = 2;
constexpr MpiOptions options{.timeout_seconds = 3.0, .meeting_seconds = 6.0};

void give_signs_of_life() {
  constexpr int sign = 29'417;  // MpiWatch's, of a rank that waits
  for (int count = 0; count < 600; ++count) {
    for (int to = 0; to < last_rank; ++to) {
      MPI_Send(nullptr, 0, MPI_BYTE, to, sign, MPI_COMM_WORLD);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

/// A process that this rank has started and that is stopped: the rank itself is not.
void start_stopped_helper() {
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::raise(SIGSTOP);
  std::_Exit(0);
}

void stay_out_of_mpi(std::string_view kind) {
  const int rank = read_launched_job([](const char* name) { return std::getenv(name); }).rank;
  if (kind == "late" && rank == 0) start_stopped_helper();
  if (kind == "late" && rank == last_rank) ::sleep(60);
  if (kind == "stopped" && rank == last_rank) std::raise(SIGSTOP);
}

/// As of ranks that share a GPU under MPS.
void meet_the_end_of_the_last_rank(Communicator& world) {
  world.watch_processes();
  if (world.rank() == last_rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::raise(SIGKILL);
  }
  world.wait_until([]() -> bool { throw DeviceError("the device failed"); },
                   [] { return std::string("a step"); });
}

void fail_on_the_last_rank(const MpiSession& session, std::string_view kind) {
  if (kind == "absent" && process_rank() == last_rank) ::sleep(60);
  if (kind == "apart" && process_rank() == last_rank) give_signs_of_life();
  const auto world = session.make_world(options);
  if (kind == "killed") meet_the_end_of_the_last_rank(*world);
  if (world->rank() == last_rank) throw Error("this rank fails on purpose");
  world->barrier();
}

int run(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "";
  stay_out_of_mpi(kind);
  MpiSession session(argc, argv);
  if (kind == "unwind") fail_on_the_last_rank(session, kind);
  try {
    fail_on_the_last_rank(session, kind);
  } catch (const RankEnded& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ::sleep(4);  // the turn of mpirun, which says which signal it was
    session.abort(3);
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
