#include <nlohmann/json.hpp>

#include "train/environment.h"
#include "tune/tune_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

Json candidate_json(const Candidate& candidate) {
  return {{"ranks_per_device", candidate.placement.ranks_per_device},
          {"colocation", name_of(candidate.placement.colocation)},
          {"sm_percent", candidate.placement.sm_percent},
          {"workers", candidate.workers}};
}

Json runs_json(const std::vector<Rates>& runs) {
  Json list = Json::array();
  for (const Rates& run : runs) {
    list.push_back({{"images_per_second", run.training},
                    {"one_batch_images_per_second", run.one_batch},
                    {"loader_images_per_second", run.loader},
                    {"range", run.range},
                    {"device_bytes", run.device_bytes ? Json(*run.device_bytes) : Json()},
                    {"borrowed_kernels", run.borrowed_kernels}});
  }
  return list;
}

Json row_json(const Row& row) {
  Json json = candidate_json(row.candidate);
  json["runs"] = runs_json(row.runs);
  json["final_runs"] = runs_json(row.final_runs);
  if (!row.problem.empty()) json["problem"] = row.problem;
  if (row.does_not_fit) json["does_not_fit"] = true;
  if (row.timed_out) json["timed_out"] = true;
  return json;
}

Json rows_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(row_json(row));
  return list;
}

Json sweep_json(const Sweep& sweep) {
  return {{"rows", rows_json(sweep.rows)},
          {"best", candidate_json(sweep.rows.at(sweep.best).candidate)},
          {"again", rows_json(sweep.again)},
          {"regret", sweep.regret},
          {"spread", sweep.spread}};
}

}  // namespace

std::string tune_json(const SearchLimits& limits, const TuneResult& result,
                      const std::optional<Sweep>& sweep) {
  Json json = Json::object();
  for (const auto& [name, value] : environment_facts()) json[name] = value;
  json.update({{"device", result.device},
               {"devices", result.devices},
               {"global_batch", limits.global_batch},
               {"seconds", limits.seconds},
               {"rows", rows_json(result.rows)},
               {"left_out", result.left_out},
               {"choice", candidate_json(result.rows.at(result.choice).candidate)}});
  if (result.one_rank && result.best_other) {
    json["gain"] = result.gain();
    json["spread"] = result.spread();
    json["measured_in_turns"] = result.measured_in_turns();
    if (const auto before = result.gain_before_only_round()) {
      json["gain_before_only_round"] = *before;
    }
  }
  if (sweep) json["sweep"] = sweep_json(*sweep);
  // A command line need not be UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
