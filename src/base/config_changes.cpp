#include "base/config_changes.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "base/toml_text.h"

namespace tandem {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Long arrays are written over several.
std::string in_one_line(const std::string& text) {
  std::string line;
  std::istringstream lines(text);
  for (std::string part; std::getline(lines, part);) {
    const std::size_t begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    if (!line.empty()) line += ' ';
    line.append(part, begin);
  }
  return line;
}

void flatten(const toml::table& table, const std::string& prefix, Settings& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", settings);
      continue;
    }
    std::ostringstream text;
    node.visit([&text](const auto& value) { text << value; });
    settings.emplace_back(name, in_one_line(text.str()));
  }
}

}  // namespace

Settings flat_config(std::string_view text, std::string_view origin) {
  Settings settings;
  flatten(parse_toml(text, origin), "", settings);
  return settings;
}

std::vector<std::string> config_changes(std::string_view before, std::string_view now) {
  constexpr const char* unset = "not set";
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [key, value] : flat_config(before, "the config before")) {
    values[key] = {value, unset};
  }
  for (const auto& [key, value] : flat_config(now, "the config")) {
    values.try_emplace(key, unset, unset).first->second.second = value;
  }
  std::vector<std::string> changes;
  for (const auto& [key, each] : values) {
    if (each.first == each.second) continue;
    changes.push_back(fmt::format("{}: {}, now {}", key, each.first, each.second));
  }
  return changes;
}

}  // namespace tandem
