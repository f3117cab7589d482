// Times whole training steps (forward, backward, reduction, optimizer) on one fixed batch, without
// data loading, and prints one line of JSON. Alone or under mpirun; training_step_torch.py is its
// counterpart, compare_training_step.py runs both.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "device/any_context.h"
#include "graph/model_file.h"
#include "parallel/colocated/host_reduction.h"
#include "parallel/mpi/mpi_session.h"
#include "train/step/replica.h"

namespace tandem {
namespace {

struct Options {
  std::string model = "resnet18";
  std::int64_t size = 32;
  std::int64_t classes = 10;
  std::int64_t batch = 64;
  int threads = 1;
  int warmup = 3;
  int steps = 10;
};

/// Seconds since this process was started, from the kernel's clocks.
double process_age() {
  std::ifstream stat("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  // The second field may hold anything, in brackets; the start time, in ticks, is the 22nd.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  TANDEM_CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0, "clock_gettime failed");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::int64_t peak_kib() {
  rusage usage{};
  TANDEM_CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage failed");
  return usage.ru_maxrss;
}

/// A batch of noise with labels; the rank makes it another one.
class NoiseBatch {
 public:
  NoiseBatch(const Options& options, std::int64_t batch, int rank)
      : pixels_(static_cast<std::size_t>(batch * options.size * options.size * 3)),
        labels_(static_cast<std::size_t>(batch)) {
    RandomStream random(static_cast<std::uint64_t>(rank));
    for (float& pixel : pixels_) pixel = random.uniform(-1.0F, 1.0F);
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      labels_[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % options.classes);
    }
    batch_.images = Tensor(pixels_.data(), {batch, options.size, options.size, 3});
    batch_.labels = Tensor(labels_.data(), {batch}, DType::i32);
    batch_.valid = static_cast<int>(batch);
  }
  const Batch& get() const { return batch_; }

 private:
  std::vector<float> pixels_;
  std::vector<std::int32_t> labels_;
  Batch batch_;
};

void run(const Options& options, Communicator& world) {
  const std::int64_t batch = options.batch / world.size();
  if (batch * world.size() != options.batch) {
    input_error("--batch {} is no multiple of {} ranks", options.batch, world.size());
  }
  AnyContext context = CpuContext(options.threads);
  RunConfig config;
  config.optimizer = {
      .learning_rate = 0.01, .weight_decay = 1e-4, .rule = SgdOptions{.momentum = 0.9F}};
  const Graph graph =
      load_model(find_model(options.model), {.classes = options.classes, .size = options.size});
  const std::unique_ptr<Communicator> reduction =
      make_host_reduction(world, RankTopology::gather(world), config.reduction);
  Replica replica(config, graph, batch, context, world, reduction ? *reduction : world);
  replica.broadcast_from_root();
  const NoiseBatch noise(options, batch, world.rank());
  const double ready = process_age();

  double loss = 0.0;
  const auto step = [&] {
    const auto start = std::chrono::steady_clock::now();
    const StepResult result =
        replica.step([&]() -> const Batch& { return noise.get(); }, 0.01F, false);
    loss = result.sums.loss / static_cast<double>(result.sums.samples);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int i = 0; i < options.warmup; ++i) step();
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(options.steps));
  for (int i = 0; i < options.steps; ++i) seconds.push_back(step());
  TANDEM_CHECK(std::isfinite(loss), "the loss is {}", loss);

  std::int64_t peak = peak_kib();
  world.all_reduce(Tensor(&peak, {1}, DType::i64), ReduceOp::sum);
  if (world.rank() != 0) return;
  std::cout << fmt::format(
      R"({{"engine": "tandem", "model": "{}", "size": {}, "global_batch": {}, "ranks": {}, )"
      R"("threads": {}, "oneDNN": "{}", "start_seconds": {:.4f}, "peak_kib": {}, )"
      R"("activation_bytes": {}, "step_seconds": [{:.6f}]}})"
      "\n",
      options.model, options.size, options.batch, world.size(), options.threads, onednn_version(),
      ready, peak, replica.plan().activation_bytes(), fmt::join(seconds, ", "));
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  try {
    const MpiSession session(argc, argv);
    Options options;
    CLI::App app("Times training steps on a fixed batch");
    app.add_option("model", options.model, "A zoo model or a model file")->capture_default_str();
    app.add_option("--size", options.size, "Pixels a side")->capture_default_str();
    app.add_option("--classes", options.classes, "Classes")->capture_default_str();
    app.add_option("--batch", options.batch, "Samples over all ranks")->capture_default_str();
    app.add_option("--threads", options.threads, "Threads a rank")->capture_default_str();
    app.add_option("--warmup", options.warmup, "Steps not timed")->capture_default_str();
    app.add_option("--steps", options.steps, "Steps timed")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    run(options, *session.make_world());
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
