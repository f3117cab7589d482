#include "parallel/placement/placement_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "device/kernel_choices.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

Json key_json(const PlacementKey& key) {
  Json json = Json::object();
  for (const auto& [name, value] : key) json[name] = value;
  return json;
}

Json choice_json(const TunedPlacement& choice) {
  return {{"ranks_per_device", choice.placement.ranks_per_device},
          {"colocation", name_of(choice.placement.colocation)},
          {"sm_percent", choice.placement.sm_percent},
          {"loader_workers", choice.loader_workers},
          {"images_per_second", choice.images_per_second},
          {"one_rank_images_per_second", choice.one_rank_images_per_second},
          {"hosts", choice.hosts},
          {"date", choice.date}};
}

int number_in(const Json& json, const char* name, int least, int most) {
  const int value = json.at(name).get<int>();
  if (value < least || value > most) input_error("{} is {}", name, value);
  return value;
}

Colocation colocation_of(const std::string& name) {
  for (const Colocation each : {Colocation::processes, Colocation::folded}) {
    if (name == name_of(each)) return each;
  }
  input_error("there is no colocation '{}'", name);
}

/// Names in a key need not be UTF-8.
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

TunedPlacement read_choice(const Json& json) {
  constexpr int many = 1024;
  return {.placement = {.ranks_per_device = number_in(json, "ranks_per_device", 1, many),
                        .colocation = colocation_of(json.at("colocation").get<std::string>()),
                        .sm_percent = number_in(json, "sm_percent", 0, 100)},
          .loader_workers = number_in(json, "loader_workers", 1, many),
          .images_per_second = json.at("images_per_second").get<double>(),
          .one_rank_images_per_second = json.at("one_rank_images_per_second").get<double>(),
          .hosts = number_in(json, "hosts", 1, std::numeric_limits<int>::max()),
          .date = json.at("date").get<std::string>()};
}

}  // namespace

PlacementStore::PlacementStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

PlacementStore PlacementStore::of_user() {
  const std::filesystem::path cache = cache_folder();
  if (cache.empty()) {
    input_error(
        "no folder for chosen placements: none of TANDEM_CACHE_DIR, XDG_CACHE_HOME and HOME is "
        "set; set one of them");
  }
  return PlacementStore(cache / "placements");
}

std::filesystem::path PlacementStore::file(const PlacementKey& key) const {
  TANDEM_CHECK(!key.empty(), "a key without facts");
  return folder_ / fmt::format("{}-{:016x}.json", file_name_of(key.front().second),
                               hash_text(dumped(key_json(key), -1)));
}

std::optional<TunedPlacement> PlacementStore::find(const PlacementKey& key) const {
  const std::filesystem::path path = file(key);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  try {
    const Json json = Json::parse(stream);
    if (json.at("key") != key_json(key)) return std::nullopt;  // two keys of one hash
    return read_choice(json.at("choice"));
  } catch (const InputError& error) {
    log_warning("'{}' is ignored: {}; tandem tune writes it anew", path.string(), error.what());
  } catch (const Json::exception& error) {
    log_warning("'{}' is damaged and ignored ({}); tandem tune writes it anew", path.string(),
                error.what());
  }
  return std::nullopt;
}

void PlacementStore::save(const PlacementKey& key, const TunedPlacement& choice) const {
  const std::filesystem::path path = file(key);
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (!code && ::access(folder_.c_str(), W_OK) != 0) code = {errno, std::generic_category()};
  if (code) {
    input_error("'{}' cannot be written: {}; set TANDEM_CACHE_DIR to a folder that can",
                folder_.string(), code.message());
  }
  const Json json = {{"key", key_json(key)}, {"choice", choice_json(choice)}};
  AtomicFile output(path);
  output.write(dumped(json, 1) + "\n");
  output.commit();
}

}  // namespace tandem
