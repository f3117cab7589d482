// How long it takes to sum gradients over ranks with a GPU each, by NCCL and directly in turns:
// mpirun -n 2 gradient_exchange [BYTES...]. As one message and as several of equal size, alone and
// beside kernels that fill the GPU. One line of JSON for each.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "busy_kernel.h"
#include "device/arena.h"
#include "device/memory.h"
#include "graph_times.h"
#include "parallel/direct/direct_communicator.h"
#include "parallel/mpi/mpi_session.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/rank_devices.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

/// Kernels that a step computes with, about as long as a small model's backward.
constexpr int busy_kernels = 60;

/// This rank's part of the run.
struct Bench {
  Communicator& world;  // over host memory
  AnyContext& context;
  CudaContext& gpu;
  std::vector<Communicator*> ways;
};

void write_line(const Bench& bench, std::string_view way, std::int64_t bytes, int messages,
                bool computing, const Times& times) {
  if (bench.world.rank() != 0) return;
  std::cout << fmt::format(R"({{"benchmark": "gradient_exchange", "way": "{}", "gpu": "{}", )"
                           R"("ranks": {}, "bytes": {}, "messages": {}, "computing": {}, {}}})",
                           way, bench.gpu.device().name, bench.world.size(), bytes, messages,
                           computing, times.json())
            << '\n'
            << std::flush;
}

/// A step's gradients, summed as several messages of equal size.
class Exchange {
 public:
  Exchange(const Bench& bench, Communicator& ranks, std::int64_t bytes, int messages)
      : bench_(bench),
        ranks_(ranks),
        messages_(messages),
        arena_(bench.context, static_cast<std::size_t>(bytes), "an arena"),
        gradients_(arena_.data(), {bytes / 4}) {
    fill(static_cast<float>(bench.world.rank() + 1));
    (void)ranks.attach(gradients_);
    enqueue(0);
    wait_for_device(ranks, bench.gpu, "a sum");
    check();
    fill(0.0F);  // sums of sums would become infinite
  }
  ~Exchange() { ranks_.detach(gradients_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Beside so many kernels.
  void enqueue(int kernels) const {
    std::vector<std::unique_ptr<Request>> requests;
    const std::int64_t elements = gradients_.elements();
    for (int m = 0; m < messages_; ++m) {
      const std::int64_t first = elements * m / messages_;
      const std::int64_t last = elements * (m + 1) / messages_;
      const Tensor message(gradients_.data<float>() + first, {last - first});
      requests.push_back(ranks_.sum_attached_async(message));
      keep_busy(bench_.gpu, kernels / messages_, gradients_.data<float>());
    }
    for (const auto& request : requests) request->wait();
  }

 private:
  void fill(float value) {
    const std::vector<float> values(static_cast<std::size_t>(gradients_.elements()), value);
    copy_to_device(bench_.context, values.data(), gradients_.bytes(), gradients_.raw());
  }
  /// Throws Error unless each element is the sum of what fill() gave all ranks.
  void check() const {
    std::vector<float> found(static_cast<std::size_t>(gradients_.elements()));
    copy_to_host(bench_.context, gradients_.raw(), gradients_.bytes(), found.data());
    const auto size = static_cast<float>(bench_.world.size());
    const float expected = size * (size + 1.0F) / 2.0F;
    const auto wrong = std::ranges::find_if(found, [&](float sum) { return sum != expected; });
    TANDEM_CHECK(wrong == found.end(), "{}: element {} of {} is {}, not {}", ranks_.name(),
                 wrong - found.begin(), found.size(), *wrong, expected);
  }

  const Bench& bench_;
  Communicator& ranks_;
  int messages_;
  Arena arena_;
  Tensor gradients_;
};

void time_computing(const Bench& bench) {
  const Arena word(bench.context, sizeof(float), "a word");
  const Times times = time_in_graphs(bench.gpu, *bench.ways.front(), [&] {
    keep_busy(bench.gpu, busy_kernels, reinterpret_cast<float*>(word.data()));
  });
  write_line(bench, "none", 0, 0, true, times);
}

void time_exchanges(const Bench& bench, std::int64_t bytes) {
  for (const int messages : {1, 2, 4, 10, 20}) {
    for (const bool computing : {false, true}) {
      for (Communicator* ranks : bench.ways) {
        const Exchange exchange(bench, *ranks, bytes, messages);
        const Times times = time_in_graphs(bench.gpu, *ranks,
                                           [&] { exchange.enqueue(computing ? busy_kernels : 0); });
        write_line(bench, ranks->name(), bytes, messages, computing, times);
      }
    }
  }
}

std::vector<std::int64_t> sizes_of(int argc, char** argv) {
  if (argc == 1) return {1 << 20, 46'800'000};
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::int64_t bytes = std::atoll(argv[i]);
    if (bytes < 4 || bytes % 4 != 0) input_error("{} is no number of bytes of f32", argv[i]);
    sizes.push_back(bytes);
  }
  return sizes;
}

void run(const MpiSession& session, const std::vector<std::int64_t>& sizes) {
  constexpr int turns = 2;
  const std::unique_ptr<Communicator> world = session.make_world();
  AnyContext context = open_rank_gpu(*world);
  auto& gpu = std::get<CudaContext>(context);
  NcclCommunicator nccl(*world, gpu);
  DirectCommunicator direct(*world, gpu);
  const Bench bench{*world, context, gpu, {&nccl, &direct}};
  time_computing(bench);
  for (int turn = 0; turn < turns; ++turn) {
    for (const std::int64_t bytes : sizes) time_exchanges(bench, bytes);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
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
