#include "train/placement_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>

#include "base/config_table.h"
#include "base/hash.h"
#include "graph/model_file.h"
#include "parallel/rank_devices.h"

namespace tandem {
namespace {

std::string hash_of(std::string_view text) { return fmt::format("{:016x}", hash_text(text)); }

/// One table of the resolved config, in which these keys are all the same.
std::string table_text(const RunConfig& config, std::string_view table,
                       std::initializer_list<std::string_view> without) {
  ConfigTable run = ConfigTable::from_text(config.text, "config");
  for (const std::string_view key : without) run.override_key(fmt::format("{}.{}=0", table, key));
  return run.table(table).to_toml();
}

/// The file's keys and values, so that another comment in it is no other model.
std::string model_text(const RunConfig& config) {
  return ConfigTable::from_file(find_model(config.model)).to_toml() +
         table_text(config, "model", {"name"});
}

/// Of [train] and [optimizer] what changes the work of a step; the rest of them are rates, lengths
/// and how often something is done or written.
std::string step_text(const RunConfig& config) {
  return fmt::format(
      "device {} threads {} side work {} in backward {} optimizer {} clipped {} averaged {} "
      "sync {} frozen {} {}",
      static_cast<int>(config.device), config.threads, static_cast<int>(config.side_work),
      config.update_in_backward, config.optimizer.rule.index(), config.optimizer.clip_norm > 0.0,
      config.average.decay > 0.0, config.sync_batch_norm, fmt::join(config.freeze.prefixes(), ","),
      config.freeze_statistics);
}

/// What one of the hosts gets; where the batch cannot be shared there is no run.
std::string batch_text(const RunConfig& config, int hosts) {
  const std::int64_t rest = config.global_batch % hosts;
  return fmt::format("{}{} in {} micro-batches", config.global_batch / hosts,
                     rest == 0 ? "" : fmt::format(" and {} of {}", rest, hosts), config.accumulate);
}

}  // namespace

PlacementKey placement_key(const RunConfig& config, const PlacementHost& host, int hosts) {
  const TransformOptions& input = config.data.transform;
  PlacementKey key{
      {"model", find_model(config.model).stem().string()},
      {"model file", hash_of(model_text(config))},
      {"input", fmt::format("{} of {}x{}x{}", name_of(config.data.kind), input.size, input.size,
                            input.channels)},
      {"data",
       hash_of(table_text(config, "data",
                          {"workers", "seed", "train_size", "test_size", "timeout_seconds"}))},
      {"batch of a host", batch_text(config, hosts)},
      {"precision", std::string(name_of(config.precision))},
      {"step", hash_of(step_text(config))},
      {"parallel",
       hash_of(table_text(config, "parallel", {"folded_ranks", "check_every", "timeout_seconds"}))},
      {"devices of a host", host.devices},
      {"cores of a host", std::to_string(host.cores)},
      {"driver", host.driver},
      {"build", host.build}};
  for (const DeviceFact& library : library_versions())
    key.emplace_back(library.name, library.value);
  return key;
}

}  // namespace tandem
