#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace tandem {

/// One tensor of a torchvision state dict.
struct StateDictEntry {
  std::string name;
  std::string dtype;  ///< "f32" or "i64"
  std::string shape;  ///< "64x3x7x7", "scalar"
};

/// A model's state dict, in its order.
using StateDict = std::vector<StateDictEntry>;

/// The state dicts of a file made by tools/make_state_dict_lists.py, by model.
inline std::map<std::string, StateDict> read_state_dicts(const std::string& file) {
  std::ifstream stream(file);
  const auto json = nlohmann::ordered_json::parse(stream);
  std::map<std::string, StateDict> dicts;
  for (const auto& [model, modules] : json.at("models").items()) {
    for (const auto& [module, tensors] : modules.items()) {
      std::istringstream words(tensors.template get<std::string>());
      for (StateDictEntry entry; words >> entry.name >> entry.dtype >> entry.shape;) {
        entry.name = module + "." + entry.name;
        if (entry.shape.ends_with(',')) entry.shape.pop_back();
        dicts[model].push_back(entry);
      }
    }
  }
  return dicts;
}

}  // namespace tandem
