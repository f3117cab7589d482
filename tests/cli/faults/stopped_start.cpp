#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>

// A library that a test preloads into a job of `tandem launch`: ranks that $TANDEM_STOPPED_START
// lists ("0 2") stop themselves before main() begins, in the time in which MPI starts.

namespace {

[[gnu::constructor]] void stop_where_listed() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const listed = std::getenv("TANDEM_STOPPED_START");
  const bool is_watched = std::getenv("TANDEM_REPORT") != nullptr;  // not the one that watches it
  if (rank == nullptr || listed == nullptr || !is_watched) return;
  std::istringstream ranks(listed);
  for (std::string each; ranks >> each;) {
    if (each == rank) std::raise(SIGSTOP);
  }
}

}  // namespace
