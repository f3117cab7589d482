// What the GPU can do at best: what `tandem bench` measures, and the gap between two kernels inside
// a CUDA graph. One line of JSON.

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>
#include <vector>

#include "base/median.h"
#include "bench/ceilings.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"

namespace tandem {
namespace {

__global__ void empty_kernel() {}

/// Seconds from one empty kernel of a chain to the next, the median of several launches.
double launch_gap(const CudaContext& context) {
  constexpr int kernels = 1000;
  constexpr int rounds = 9;
  CudaGraph chain(context, [&] {
    for (int i = 0; i < kernels; ++i) empty_kernel<<<1, 32, 0, context.stream()>>>();
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  CudaEvent first;
  CudaEvent last;
  std::vector<double> seconds;
  chain.launch();
  for (int i = 0; i < rounds; ++i) {
    first.record(context);
    chain.launch();
    last.record(context);
    last.synchronize();
    seconds.push_back(last.seconds_since(first));
  }
  return median(std::move(seconds)) / kernels;
}

void run(int index) {
  AnyContext any = CudaContext(index);
  const auto& context = std::get<CudaContext>(any);
  const CudaDevice& device = context.device();
  const Ceilings ceilings = measure_ceilings(any);
  std::cout << fmt::format(
      R"({{"gpu": "{}", "multiprocessors": {}, "memory_bytes": {}, "l2_bytes": {}, )"
      R"("copy_bytes_per_second": {:.4g})",
      device.name, device.multiprocessors, device.memory_bytes, device.l2_bytes,
      ceilings.bytes_per_second.value());
  for (const Precision precision : all_precisions) {
    if (const std::optional<double> rate = ceilings.operations(precision)) {
      std::cout << fmt::format(R"(, "{}_operations_per_second": {:.4g})", name_of(precision),
                               *rate);
    }
  }
  std::cout << fmt::format(R"(, "graph_launch_gap_seconds": {:.3g}}})"
                           "\n",
                           launch_gap(context));
}

}  // namespace
}  // namespace tandem

/// Takes the device's index, 0 without.
int main(int argc, char** argv) {
  try {
    tandem::run(argc > 1 ? std::atoi(argv[1]) : 0);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
