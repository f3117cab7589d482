#include "cli/faulty_device.h"

#include <fmt/format.h>

#include <utility>

#include "cli/fault_check.h"

namespace tandem::cli {

namespace fs = std::filesystem;

std::unique_ptr<Program> FaultyDevice::started_faulty(const Words& options, const Words& training) {
  return started(faulty(launch(shared_gpu(options), endless_job(training))));
}

std::unique_ptr<Program> FaultyDevice::started_faulty_bench(const Words& assignments) const {
  Words words{"launch"};
  const auto add = [&](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  add(shared_gpu());
  add({"--", "bench", "run.toml", "--seconds", "3600"});
  add(set(device().settings));
  add(set(assignments));
  auto program = std::make_unique<Program>(faulty(with_driver(words)));
  order({1}, "nothing", device().start_seconds);
  // More launches than there are where kernels are chosen.
  for (int thousands = 1; thousands < 50; ++thousands) order({1}, "nothing");
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

void FaultyDevice::order(const std::vector<int>& ranks, const std::string& what,
                         double seconds) const {
  for (const int rank : ranks) write_file(written(rank), what);
  for (const int rank : ranks) {
    fs::rename(written(rank), path("orders") / std::to_string(rank));
  }
  wait_until("the orders are taken", seconds, [&] { return fs::is_empty(path("orders")); });
}

fs::path FaultyDevice::written(int rank) const { return path(fmt::format("order-{}", rank)); }

}  // namespace tandem::cli
