#include "tune/bench_runner.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/machine.h"
#include "device/tune_setting.h"
#include "tune/child_process.h"

namespace tandem {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

bool speaks_of_memory(std::string_view line) {
  return line.find("out of memory") != std::string_view::npos ||
         line.find("does not fit the memory") != std::string_view::npos;
}

Rates read_rates(const nlohmann::json& json) {
  const nlohmann::json& loaded = json.at("with_loader");
  const nlohmann::json& range = loaded.at("step_seconds_range");
  Rates rates{.training = loaded.at("images_per_second").get<double>(),
              .one_batch = json.at("step").at("images_per_second").get<double>(),
              .loader = json.at("loader").at("images_per_second").get<double>(),
              .range = (range.at(1).get<double>() - range.at(0).get<double>()) /
                       loaded.at("step_seconds").get<double>()};
  const nlohmann::json& bytes = json.at("memory").at("device_bytes");
  if (bytes.is_number()) rates.device_bytes = bytes.get<double>();
  rates.borrowed_kernels = json.at("start").at("borrowed_kernels").get<int>() > 0;
  return rates;
}

}  // namespace

std::vector<std::string> bench_command(const BenchCall& call, const Candidate& candidate,
                                       const std::filesystem::path& json) {
  const Placement& placement = candidate.placement;
  std::vector<std::string> words{call.program, "launch"};
  if (!call.gpus.empty()) add(words, {"--gpus", call.gpus});
  add(words, {"--ranks-per-gpu", std::to_string(placement.ranks_per_device), "--colocation",
              std::string(name_of(placement.colocation))});
  if (placement.sm_percent > 0) {
    add(words, {"--sm-percent", std::to_string(placement.sm_percent)});
  }
  add(words, {"--", "bench", call.config});
  for (const std::string& assignment : call.overrides) add(words, {"--set", assignment});
  // Whatever the config folds; of folded candidates the launcher says how many.
  add(words, {"--set", "parallel.folded_ranks=1"});
  add(words, {"--set", fmt::format("data.workers={}", candidate.workers), "--rates-only",
              "--seconds", fmt::format("{}", call.seconds), "--json", json.string()});
  return words;
}

Measurement read_measurement(const std::string& json) {
  try {
    const nlohmann::json all = nlohmann::json::parse(json);
    const bool on_gpus = all.at("threads_per_rank").get<int>() == 0;
    return {.rates = read_rates(all),
            .plan_seconds = all.at("start").at("model_seconds").get<double>(),
            .device = on_gpus ? all.at("device").get<std::string>() : read_machine().cpu_model,
            .devices = all.at("devices").get<int>(),
            .hosts = all.at("hosts").get<int>(),
            .on_gpus = on_gpus};
  } catch (const nlohmann::json::exception& error) {
    input_error("tandem bench wrote what cannot be read: {}", error.what());
  }
}

Measurement read_failure(std::string_view printed) {
  constexpr std::string_view mark = "error: ";
  Measurement failure;
  while (!printed.empty()) {
    const std::size_t end = std::min(printed.find('\n'), printed.size());
    const std::string_view line = printed.substr(0, end);
    printed.remove_prefix(std::min(end + 1, printed.size()));
    const std::size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    const bool memory = speaks_of_memory(line);
    // The first error is the cause, but for one of memory, which is the cause whenever it is there.
    if (!failure.problem.empty() && (!memory || failure.does_not_fit)) continue;
    failure.problem = line.substr(at + mark.size());
    failure.does_not_fit = memory;
  }
  return failure;
}

BenchRunner::BenchRunner(BenchCall call, std::filesystem::path folder, std::function<bool()> stop)
    : call_(std::move(call)), folder_(std::move(folder)), stop_(std::move(stop)) {}

Measurement BenchRunner::measure(const Candidate& candidate, bool borrow, double seconds) const {
  const std::filesystem::path json = folder_ / "bench.json";
  const std::filesystem::path output = folder_ / "output.txt";
  std::filesystem::remove(json);
  const bool borrows = borrow && candidate.placement.sm_percent > 0 && tune_setting().empty();
  EnvironmentChanges environment;
  if (borrows) environment.emplace_back("TANDEM_TUNE", "borrow");
  const ChildEnd end = run_child({.command = bench_command(call_, candidate, json),
                                  .output = output,
                                  .timeout_seconds = seconds,
                                  .environment = std::move(environment),
                                  .stop = stop_});
  if (end.stopped) throw Interrupted();
  if (end.timed_out) {
    return {.problem = fmt::format("took longer than {:.4g} s", seconds), .timed_out = true};
  }
  if (end.code == 0) return read_measurement(content(json));
  Measurement failure = read_failure(content(output));
  if (failure.problem.empty()) {
    failure.problem = fmt::format("ended with code {} and no message", end.code);
  }
  return failure;
}

}  // namespace tandem
