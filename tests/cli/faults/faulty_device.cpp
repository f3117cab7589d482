#include "cli/faults/faulty_device.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "cli/faults/fault_check.h"

namespace tandem::cli {

namespace fs = std::filesystem;

std::unique_ptr<Program> FaultyDevice::started_faulty(const Words& options, const Words& training) {
  return started(faulty(launch(shared_gpu(options), endless_job(training))));
}

std::unique_ptr<Program> FaultyDevice::started_faulty_command(const Words& command,
                                                              const Words& assignments) const {
  Words words{"launch"};
  const auto add = [&](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  add(shared_gpu());
  add({"--"});
  add(command);
  add(set(device().settings));
  add(set(assignments));
  auto program = std::make_unique<Program>(faulty(with_driver(words)));
  give_orders({1}, "nothing");
  wait_until("it has begun", device().start_seconds,
             [&] { return !program->running() || fs::is_empty(path("orders")); });
  if (!program->running()) throw std::runtime_error("the command ended: " + program->wait().err);
  return program;
}

std::unique_ptr<Program> FaultyDevice::started_faulty_bench(const Words& assignments) const {
  auto program = started_faulty_command({"bench", "run.toml", "--seconds", "3600"}, assignments);
  // More launches than there are where kernels are chosen.
  for (int thousands = 1; thousands < 50; ++thousands) order({1}, "nothing");
  return program;
}

Words FaultyDevice::settings_of_a_long_end(int steps, const Words& more) {
  return set(
      {fmt::format("train.max_steps={}", steps), "train.eval_batch=256", "data.test_size=20000000"},
      more);
}

std::unique_ptr<Program> FaultyDevice::started_and_hung_behind(const Launch& job, int rank,
                                                               int steps) {
  // The first step is no launch of the graph.
  auto program =
      started(with(faulty(job), "TANDEM_FAULT_BEHIND", fmt::format("{} {}", rank, steps - 1)));
  wait_until("the device hangs", 20.0, [&] { return fs::exists(path("orders") / "met"); });
  return program;
}

Launch FaultyDevice::faulty(Launch command) const {
  fs::create_directories(path("orders"));
  command = with_script(std::move(command), "nvidia-cuda-mps-control", R"(#!/bin/bash
unset LD_PRELOAD
PATH=${PATH//"${0%/*}":/}
exec nvidia-cuda-mps-control "$@"
)");
  command.timeout += device().start_seconds;  // some start once more
  command = with(command, "LD_PRELOAD", TANDEM_RANK_FAULT);
  return with(command, "TANDEM_FAULT_ORDERS", path("orders").string());
}

void FaultyDevice::order(const std::vector<int>& ranks, const std::string& what) const {
  give_orders(ranks, what);
  wait_until("the orders are taken", 20.0, [&] { return fs::is_empty(path("orders")); });
}

void FaultyDevice::give_orders(const std::vector<int>& ranks, const std::string& what) const {
  const auto written = [this](int rank) { return path(fmt::format("order-{}", rank)); };
  for (const int rank : ranks) write_file(written(rank), what);
  // As nearly at one moment as can be: they are to be followed in the same step.
  for (const int rank : ranks) {
    fs::rename(written(rank), path("orders") / std::to_string(rank));
  }
}

}  // namespace tandem::cli
