#include "bench/bench_json.h"

#include <nlohmann/json.hpp>

#include "train/environment.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json told(const std::optional<T>& value) {
  return value ? Json(*value) : Json("unavailable");
}

Json rate_json(const BenchResult& result, const StepRate& rate) {
  return {{"images_per_second", result.images_per_second(rate)},
          {"step_seconds", rate.seconds},
          {"step_seconds_range", {rate.least_seconds, rate.most_seconds}},
          {"steps", rate.steps}};
}

Json phases_json(const PhaseSeconds& phases) {
  Json json = Json::object();
  for (std::size_t p = 0; p < phases.size(); ++p) {
    json[std::string(phase_names[p]) + "_seconds"] = phases[p];
  }
  return json;
}

Json layer_json(const LayerTime& layer) {
  Json json = Json::object();
  if (!layer.name.empty()) json["name"] = layer.name;
  json["what"] = layer.what;
  if (!layer.output.empty()) json["output"] = layer.output;
  if (layer.name.empty()) json["layers"] = layer.count;
  json.update({{"forward_seconds", layer.forward_seconds},
               {"backward_seconds", layer.backward_seconds},
               {"floor_seconds", told(layer.floor_seconds)},
               {"forward_bytes", layer.cost.forward_bytes},
               {"backward_bytes", layer.cost.backward_bytes},
               {"forward_operations", layer.cost.forward_operations},
               {"backward_operations", layer.cost.backward_operations}});
  return json;
}

Json layers_json(std::span<const LayerTime> layers) {
  Json list = Json::array();
  for (const LayerTime& layer : layers) list.push_back(layer_json(layer));
  return list;
}

Json ceilings_json(const Ceilings& ceilings) {
  Json products = Json::object();
  for (const Precision precision : all_precisions) {
    products[std::string(name_of(precision))] = told(ceilings.operations(precision));
  }
  return {{"bytes_per_second", told(ceilings.bytes_per_second)},
          {"operations_per_second", products}};
}

Json ranks_json(const BenchResult& result) {
  Json list = Json::array();
  for (const RankMeasures& rank : result.ranks) {
    Json json = phases_json(rank.phases);
    json["data_wait_seconds"] = rank.data_wait_seconds;
    json["loader_images_per_second"] = rank.loader_images_per_second;
    list.push_back(json);
  }
  return list;
}

Json gpu_json(const BenchResult& result) {
  if (!result.gpu) return "unavailable";
  return {{"sm_activity", told(result.gpu->sm_activity)},
          {"sm_occupancy", told(result.gpu->sm_occupancy)},
          {"tensor_activity", told(result.gpu->tensor_activity)},
          {"dram_activity", told(result.gpu->dram_activity)},
          {"energy_joules", told(result.gpu->energy_joules)},
          {"joules_per_1000_images", told(result.joules_per_1000_images)}};
}

void add_details(Json& json, const BenchResult& result) {
  json["phases"] = phases_json(result.mean_phases());
  json["ranks_measured"] = ranks_json(result);
  json["achieved"] = {{"operations_per_second", result.operations() / result.alone.seconds},
                      {"bytes_per_second", result.bytes() / result.alone.seconds}};
  json["ceilings"] = ceilings_json(result.ceilings);
  json["recording_seconds"] = result.times.recording_seconds;
  json["layer_groups"] = layers_json(by_kind(result.times.layers));
  json["layers"] = layers_json(result.times.layers);
}

}  // namespace

std::string bench_json(const BenchResult& result) {
  Json json = Json::object();
  for (const auto& [name, value] : environment_facts()) json[name] = value;
  json.update({{"model", result.model},
               {"device", result.device},
               {"precision", name_of(result.precision)},
               {"communicator", result.communicator},
               {"devices", result.devices},
               {"hosts", result.hosts},
               {"ranks", result.ranks.size() * static_cast<std::size_t>(result.folded_ranks)},
               {"processes", result.ranks.size()},
               {"folded_ranks", result.folded_ranks},
               {"threads_per_rank", result.threads},
               {"global_batch", result.global_batch},
               {"micro_batch", result.micro_batch},
               {"accumulate", result.accumulate},
               {"side_layers", result.side_layers},
               {"updates_in_backward", result.updates_in_backward}});
  json["start"] = {{"device_seconds", result.device_seconds},
                   {"data_seconds", result.data_seconds},
                   {"model_seconds", result.model_seconds},
                   {"borrowed_kernels", result.borrowed_kernels},
                   {"first_steps_seconds", result.first_steps_seconds}};
  json["step"] = rate_json(result, result.alone);
  json["with_loader"] = rate_json(result, result.with_loader);
  json["with_loader"]["data_wait_seconds"] = result.data_wait_seconds();
  json["others_share"] = told(result.others_share());
  json["loader"] = {{"images_per_second", result.loader_images_per_second()}};
  json["memory"] = {{"state_bytes", result.state_bytes},
                    {"activation_bytes", result.activation_bytes},
                    {"device_bytes", told(result.device_bytes)},
                    {"process_bytes", result.process_bytes}};
  if (result.on_gpus()) json["gpu"] = gpu_json(result);
  if (!result.times.layers.empty()) add_details(json, result);
  // A command line need not be UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
