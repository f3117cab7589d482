#include "graph_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "parallel/stream_watch.h"

namespace tandem {

std::string Times::json() const {
  return fmt::format(R"("median_seconds": {:.4g}, "least_seconds": {:.4g}, "most_seconds": {:.4g})",
                     median, least, most);
}

Times summary(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {median(seconds), seconds.front(), seconds.back()};
}

Times time_in_graphs(CudaContext& gpu, Communicator& waiting, const std::function<void()>& enqueue,
                     int repeats) {
  constexpr int rounds = 31;
  enqueue();
  wait_for_device(waiting, gpu, "what is measured, the first time");
  CudaGraph graph(gpu, [&] {
    for (int i = 0; i < repeats; ++i) enqueue();
  });
  for (int i = 0; i < 3; ++i) graph.launch();
  std::vector<CudaEvent> moments(rounds + 1);
  moments[0].record(gpu);
  for (int i = 0; i < rounds; ++i) {
    graph.launch();
    moments[static_cast<std::size_t>(i) + 1].record(gpu);
  }
  wait_for_device(waiting, gpu, "what is measured");
  std::vector<double> seconds;
  for (std::size_t i = 0; i < rounds; ++i) {
    seconds.push_back(moments[i + 1].seconds_since(moments[i]) / repeats);
  }
  return summary(std::move(seconds));
}

}  // namespace tandem
