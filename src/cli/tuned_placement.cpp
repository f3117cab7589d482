#include "cli/tuned_placement.h"

#include <fmt/format.h>

#include <map>

#include "base/build_id.h"
#include "cli/launched_command.h"
#include "device/kernel_choices.h"
#include "device/machine.h"

namespace tandem {
namespace {

std::string devices_text(const std::vector<GpuInfo>& gpus) {
  std::map<std::string, int> models;
  for (const GpuInfo& gpu : gpus) ++models[gpu.name];
  std::string text;
  for (const auto& [model, count] : models) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, model);
  }
  return text;
}

}  // namespace

PlacementHost placement_host(const std::vector<GpuInfo>& used, const GpuList& host) {
  const Machine machine = read_machine();
  return {.devices = used.empty() ? machine.cpu_model : devices_text(used),
          .driver = used.empty() ? "" : host.driver,
          .cores = default_threads(machine, 1),
          .build = build_id()};
}

std::optional<TunedPlacement> tuned_placement(const std::vector<std::string>& command,
                                              const PlacementHost& host, int hosts) {
  if (cache_folder().empty()) return std::nullopt;  // nothing could be kept
  return PlacementStore::of_user().find(placement_key(launched_config(command), host, hosts));
}

}  // namespace tandem
