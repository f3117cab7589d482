// How long it takes to sum gradients over ranks that share GPUs: mpirun -n 4 colocated_all_reduce
// [BYTES...]. Beside it, in the same run, the leaders' NCCL alone, where there are several GPUs,
// MPI through the hosts' memory, and NCCL's own way to share GPUs, where it has one. One line of
// JSON for each size and way.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/arena.h"
#include "device/memory.h"
#include "device/pinned_memory.h"
#include "graph_times.h"
#include "nccl_on_shared_gpus.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_session.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/placement/rank_topology.h"
#include "parallel/rank_devices.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// This rank's part of the run.
struct Bench {
  Communicator& world;  // over host memory
  AnyContext& context;
  CudaContext& gpu;
  RankTopology topology;
  Communicator& ranks;       // over the GPUs' memory
  NcclCommunicator* nccl;    // the leaders'; null elsewhere, and with one GPU
  NcclOnSharedGpus* shared;  // null where NCCL has no such thing, or no ranks share a GPU
};

void write_line(const Bench& bench, const std::string& way, std::int64_t bytes,
                const Times& times) {
  if (bench.world.rank() != 0) return;
  std::cout << fmt::format(R"({{"benchmark": "colocated_all_reduce", "way": "{}", "gpu": "{}", )"
                           R"("gpus": {}, "ranks": {}, "bytes": {}, {}, "gb_per_second": {:.4g}}})",
                           way, bench.gpu.device().name, bench.topology.devices(),
                           bench.world.size(), bytes, times.json(),
                           static_cast<double>(bytes) / times.median * 1e-9)
            << '\n'
            << std::flush;
}

void fill(const Bench& bench, const Arena& arena, float value) {
  const std::vector<float> values(arena.bytes() / sizeof(float), value);
  copy_to_device(bench.context, values.data(), arena.bytes(), arena.data());
}

/// Throws Error unless each of the values at `sums` is the sum of what fill() gave all ranks.
void check(const Bench& bench, const Tensor& sums) {
  std::vector<float> found(static_cast<std::size_t>(sums.elements()));
  copy_to_host(bench.context, sums.raw(), sums.bytes(), found.data());
  const auto size = static_cast<float>(bench.world.size());
  const float expected = size * (size + 1.0F) / 2.0F;
  const auto wrong = std::ranges::find_if(found, [&](float sum) { return sum != expected; });
  TANDEM_CHECK(wrong == found.end(), "element {} of {} is {}, not {}", wrong - found.begin(),
               found.size(), *wrong, expected);
}

void time_attached(const Bench& bench, std::int64_t bytes) {
  const Arena arena(bench.context, static_cast<std::size_t>(bytes), "an arena");
  fill(bench, arena, static_cast<float>(bench.world.rank() + 1));
  const Tensor gradients(arena.data(), {bytes / 4});
  const Tensor sums = bench.ranks.attach(gradients);
  const bool in_place = sums.raw() == gradients.raw();  // one rank per GPU
  if (in_place) {
    bench.ranks.sum_attached_async(gradients)->wait();
    wait_for_device(bench.ranks, bench.gpu, "an all-reduce");
    check(bench, sums);
    fill(bench, arena, 0.0F);
  }
  const Times times = time_in_graphs(bench.gpu, bench.ranks,
                                     [&] { bench.ranks.sum_attached_async(gradients)->wait(); });
  if (!in_place) check(bench, sums);
  bench.ranks.detach(gradients);
  write_line(bench, std::string(bench.ranks.name()), bytes, times);
}

/// The leaders alone, while the others wait on their hosts.
void time_leaders(const Bench& bench, std::int64_t bytes) {
  Times times;
  if (bench.nccl != nullptr) {
    const Arena arena(bench.context, static_cast<std::size_t>(bytes), "an arena");
    fill(bench, arena, 0.0F);
    const Tensor gradients(arena.data(), {bytes / 4});
    times = time_in_graphs(bench.gpu, *bench.nccl,
                           [&] { bench.nccl->all_reduce_async(gradients, ReduceOp::sum)->wait(); });
  }
  bench.world.barrier();
  write_line(bench, "leaders' nccl", bytes, times);
}

void time_through_hosts(const Bench& bench, std::int64_t bytes) {
  constexpr int rounds = 5;
  const auto size = static_cast<std::size_t>(bytes);
  const Arena arena(bench.context, size, "an arena");
  const std::shared_ptr<std::byte> host = allocate_pinned(bench.gpu, size);
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i) {
    fill(bench, arena, static_cast<float>(bench.world.rank() + 1));
    bench.world.barrier();
    const Clock::time_point start = Clock::now();
    copy_to_host(bench.context, arena.data(), size, host.get());
    bench.world.all_reduce(Tensor(host.get(), {bytes / 4}), ReduceOp::sum);
    copy_to_device(bench.context, host.get(), size, arena.data());
    // The first warms up.
    if (i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  check(bench, Tensor(arena.data(), {bytes / 4}));
  write_line(bench, "mpi", bytes, summary(std::move(seconds)));
}

void time_shared_nccl(const Bench& bench, std::int64_t bytes) {
  const Arena arena(bench.context, static_cast<std::size_t>(bytes), "an arena");
  const Tensor values(arena.data(), {bytes / 4});
  fill(bench, arena, static_cast<float>(bench.world.rank() + 1));
  bench.shared->sum_async(values);
  wait_for_device(bench.world, bench.gpu, "NCCL's sum over ranks that share GPUs");
  check(bench, values);
  fill(bench, arena, 0.0F);
  const Times times =
      time_in_graphs(bench.gpu, bench.world, [&] { bench.shared->sum_async(values); });
  write_line(bench, "nccl of all ranks", bytes, times);
}

std::vector<std::int64_t> sizes_of(int argc, char** argv) {
  if (argc == 1) return {4096, 1 << 20, 46'800'000, 102'400'000};
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::int64_t bytes = std::atoll(argv[i]);
    if (bytes < 4 || bytes % 4 != 0) input_error("{} is no number of bytes of f32", argv[i]);
    sizes.push_back(bytes);
  }
  return sizes;
}

void run(const MpiSession& session, const std::vector<std::int64_t>& sizes) {
  const std::unique_ptr<Communicator> world = session.make_world();
  AnyContext context = open_rank_gpu(*world);
  auto& gpu = std::get<CudaContext>(context);
  const std::unique_ptr<Communicator> ranks = make_device_communicator(context, *world);
  const RankTopology topology = RankTopology::gather(*world, this_place(gpu.device().uuid));
  const bool leads = topology.colocated_rank() == 0;
  const std::unique_ptr<Communicator> half = world->split(leads ? 0 : 1);
  std::unique_ptr<NcclCommunicator> nccl;
  if (leads && topology.devices() > 1) nccl = std::make_unique<NcclCommunicator>(*half, gpu);
  std::unique_ptr<NcclOnSharedGpus> shared;
  if (topology.devices() < world->size() && NcclOnSharedGpus::is_available()) {
    const int ranks_of_gpu = (world->size() - 1) / topology.devices() + 1;
    shared = std::make_unique<NcclOnSharedGpus>(*world, gpu, ranks_of_gpu);
  }
  const Bench bench{*world, context, gpu, topology, *ranks, nccl.get(), shared.get()};
  for (const std::int64_t bytes : sizes) {
    time_attached(bench, bytes);
    if (topology.devices() > 1) time_leaders(bench, bytes);
    time_through_hosts(bench, bytes);
    if (shared) time_shared_nccl(bench, bytes);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  NcclOnSharedGpus::enable();
  MpiSession session(argc, argv);
  try {
    run(session, sizes_of(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    session.abort(1);
    return 1;
  }
}
