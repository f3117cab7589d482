#include "report/run_history.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/config_changes.h"
#include "base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double number(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
}

/// The same of a count; 0 where there is none.
double count(const Json& record, const char* key) {
  const double value = number(record, key);
  return value > 0 && std::isfinite(value) ? value : 0.0;
}

/// Steps ascend: what a resumed run did again replaces what was there.
template <typename Record>
void add(std::vector<Record>& records, const Record& record) {
  while (!records.empty() && records.back().step >= record.step) records.pop_back();
  records.push_back(record);
}

std::string text(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void add_start(const Json& json, RunHistory& run) {
  ++run.starts;
  run.end.reset();
  run.environment.clear();
  for (const auto& [key, value] : json.items()) {
    if (key == "event") continue;
    run.environment.emplace_back(
        key, value.is_string() ? value.get<std::string>()
                               : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

void add_train(const Json& json, std::int64_t step, double elapsed, RunHistory& run) {
  add(run.train, {.step = step,
                  .elapsed = elapsed,
                  .epoch = number(json, "epoch"),
                  .loss = number(json, "loss"),
                  .top1 = number(json, "top1"),
                  .learning_rate = number(json, "learning_rate"),
                  .gradient_norm = number(json, "gradient_norm"),
                  .samples = number(json, "samples"),
                  .seconds = number(json, "seconds"),
                  .images_per_second = number(json, "images_per_second"),
                  .data_wait_seconds = number(json, "data_wait_seconds"),
                  .exposed_communication_seconds = number(json, "exposed_communication_seconds"),
                  .sm_activity = number(json, "sm_activity"),
                  .tensor_activity = number(json, "tensor_activity"),
                  .dram_activity = number(json, "dram_activity"),
                  .watts = number(json, "energy_joules") / number(json, "gpu_seconds")});
}

void add_evaluation(const Json& json, std::int64_t step, double elapsed, RunHistory& run) {
  add(run.evaluations, {.step = step,
                        .elapsed = elapsed,
                        .epoch = number(json, "epoch"),
                        .loss = number(json, "loss"),
                        .top1 = number(json, "top1"),
                        .top5 = number(json, "top5"),
                        .seconds = number(json, "seconds")});
}

/// One step may have two: of its training and of its evaluation.
void add_bad_samples(const Json& json, std::int64_t step, double elapsed, RunHistory& run) {
  std::erase_if(run.bad_samples, [&](const auto& each) { return each.step > step; });
  const double before = run.bad_samples.empty() ? 0.0 : run.bad_samples.back().skipped;
  run.bad_samples.push_back({.step = step,
                             .elapsed = elapsed,
                             .skipped = before + count(json, "skipped"),
                             .distinct = count(json, "distinct")});
}

void add_end(const Json& json, std::int64_t step, double /*elapsed*/, RunHistory& run) {
  run.end = {.ending = text(json, "ending"), .step = step, .reason = text(json, "reason")};
}

/// What takes records of a step; null for other events.
auto adder_of(const std::string& event)
    -> void (*)(const Json&, std::int64_t, double, RunHistory&) {
  if (event == "train") return &add_train;
  if (event == "evaluation") return &add_evaluation;
  if (event == "bad_samples") return &add_bad_samples;
  if (event == "end") return &add_end;
  return nullptr;
}

/// Adds the record of one line and its time to `elapsed`; returns whether the line is one.
bool add_record(const std::string& line, RunHistory& run, double& elapsed) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto event = json.find("event");
  if (event == json.end() || !event->is_string()) return false;
  if (*event == "start") {
    add_start(json, run);
    return true;
  }
  const auto add_to = adder_of(event->get<std::string>());
  if (add_to == nullptr) return true;  // of another version, perhaps
  const double step = number(json, "step");
  if (!(step >= 0 && step < 9e15)) return false;
  const double seconds = number(json, "seconds");
  if (seconds > 0) elapsed += seconds;
  add_to(json, static_cast<std::int64_t>(step), elapsed, run);
  return true;
}

void read_metrics(const fs::path& path, RunHistory& run) {
  std::error_code code;
  std::ifstream file(path, std::ios::binary);
  const bool is_there = fs::is_regular_file(path, code);
  if (is_there && !file) input_error("{}: cannot be read; check its permissions", path.string());
  if (!is_there) {
    input_error("{}: no such file; give the folders of runs, as 'tandem train --out' names them",
                path.string());
  }
  int damaged = 0;
  int first_damaged = 0;
  double elapsed = 0.0;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (add_record(line, run, elapsed)) continue;
    if (file.eof()) break;  // half a line, which is still being written or never will be
    if (damaged++ == 0) first_damaged = number;
  }
  if (damaged > 0) {
    run.notes.push_back(fmt::format("{}:{}: no record; {} such line{} left out", path.string(),
                                    first_damaged, damaged, damaged == 1 ? " is" : "s are"));
  }
  if (run.starts == 0 && run.train.empty() && run.evaluations.empty()) {
    input_error("{}: no record of a run in it{}", path.string(),
                damaged > 0 ? "; the file is damaged" : "; the run has not begun");
  }
}

void read_config(const fs::path& path, RunHistory& run) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    run.notes.push_back(fmt::format("{}: cannot be read; the config is left out", path.string()));
    return;
  }
  std::ostringstream text;
  text << file.rdbuf();
  try {
    run.config = flat_config(text.str(), path.string());
  } catch (const InputError& error) {
    run.notes.push_back(fmt::format("{}; the config is left out", error.what()));
  }
}

}  // namespace

RunHistory read_run(const fs::path& folder) {
  RunHistory run;
  run.folder = folder;
  // "runs/a/" has no last name, "." none that tells.
  run.name = fs::weakly_canonical(folder).filename().string();
  read_metrics(folder / "metrics.jsonl", run);
  read_config(folder / "config.toml", run);
  return run;
}

std::vector<RunHistory> read_runs(std::span<const fs::path> folders) {
  std::vector<RunHistory> runs;
  std::set<fs::path> places;
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    runs.push_back(read_run(folder));
    names.insert(runs.back().name);
    if (!places.insert(fs::weakly_canonical(folder) / "").second) {
      input_error("{} is given twice", folder.string());
    }
  }
  if (names.size() < runs.size()) {
    for (RunHistory& run : runs) run.name = run.folder.string();
  }
  return runs;
}

}  // namespace tandem
