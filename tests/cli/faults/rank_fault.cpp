#include "cli/faults/rank_fault.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "support/function_behind.h"

// A library that a test preloads into the ranks of a job, so that one of them does what the test
// orders. It stands in front of calls of CUDA's runtime that a rank makes, whose types are written
// here as they are passed, since the runtime's header declares the functions already.
//
// An order is a file $TANDEM_FAULT_ORDERS/RANK with one of these words. A rank looks for it, and
// takes it away, at every 1000th launch of a graph, that is of a step: so ranks that are given one
// at the same moment follow it in the same step. And at its 20th launch, where it still chooses
// kernels if it has none yet, for an order $TANDEM_FAULT_ORDERS/first-RANK.
//   nothing  goes on: it has come to that launch
//   astray   a kernel writes to an address that is nobody's, before the step
//   spin     a kernel of one thread never ends, before the step
//   flood    the same with as many threads as there is room for on the GPU
//   memory   no device memory is left from here on
//
// Another one is in the environment from the start: TANDEM_FAULT_BEHIND="RANK LAUNCHES" has a
// kernel of one thread never end behind so many launches of one graph in a row. Steps come to
// hundreds, and so may a rank that times graphs to choose kernels, which is rank 0. The rank then
// leaves a file $TANDEM_FAULT_ORDERS/met.

namespace {

constexpr int out_of_memory = 2;  // cudaErrorMemoryAllocation
constexpr long interval = 1000;
constexpr long first_launch = 20;

bool g_memory_is_out = false;  // set and read on the thread that computes

/// The order for this process; empty where there is none. `kind`: with which its file begins.
std::string take_order(const char* kind = "") {
  const char* const folder = std::getenv("TANDEM_FAULT_ORDERS");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (folder == nullptr || rank == nullptr) return {};
  const std::string file = std::string(folder) + "/" + kind + rank;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::array<char, 16> text{};
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  static_cast<void>(::close(descriptor));
  if (count <= 0 || ::unlink(file.c_str()) != 0) std::abort();
  return {text.data(), static_cast<std::size_t>(count)};
}

/// Behind how many launches of one graph in a row this process is to hang; 0 where it is not.
long launches_before_the_hang() {
  const char* const order = std::getenv("TANDEM_FAULT_BEHIND");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (order == nullptr || rank == nullptr) return 0;
  const std::string text = order;
  const std::size_t space = text.find(' ');
  return text.substr(0, space) == rank ? std::stol(text.substr(space)) : 0;
}

void hang_behind(void* graph, void* stream) {
  static const long limit = launches_before_the_hang();
  static const void* last = nullptr;
  static long in_a_row = 0;
  if (limit == 0) return;
  in_a_row = std::exchange(last, graph) == graph ? in_a_row + 1 : 1;
  if (in_a_row != limit) return;
  tandem::cli::spin(stream);
  const std::string file = std::string(std::getenv("TANDEM_FAULT_ORDERS")) + "/met";
  if (::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) != 0) std::abort();
}

void follow(std::string_view order, void* stream) {
  using namespace tandem::cli;
  if (order.empty() || order == "nothing") return;
  if (order == "astray") {
    write_astray(stream);
  } else if (order == "spin") {
    spin(stream);
  } else if (order == "flood") {
    flood(stream);
  } else if (order == "memory") {
    g_memory_is_out = true;
  } else {
    std::abort();
  }
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): as in CUDA
__attribute__((visibility("default"))) int cudaGraphLaunch(void* graph, void* stream) {
  static auto* const launch = function_behind<int(void*, void*)>("cudaGraphLaunch");
  static long launches = 0;
  if (++launches == first_launch) follow(take_order("first-"), stream);
  if (launches % interval == 0) follow(take_order(), stream);
  const int status = launch(graph, stream);
  hang_behind(graph, stream);
  return status;
}

// NOLINTNEXTLINE(readability-identifier-naming): as in CUDA
__attribute__((visibility("default"))) int cudaMalloc(void** memory, std::size_t bytes) {
  static auto* const allocate = function_behind<int(void**, std::size_t)>("cudaMalloc");
  if (!g_memory_is_out) return allocate(memory, bytes);
  *memory = nullptr;
  return out_of_memory;
}
}
