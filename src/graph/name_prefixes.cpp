#include "graph/name_prefixes.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"

namespace tandem {
namespace {

bool begins_with(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

}  // namespace

bool NamePrefixes::match(std::string_view name) const {
  return std::ranges::any_of(prefixes_,
                             [&](const std::string& prefix) { return begins_with(name, prefix); });
}

void NamePrefixes::check_against(const Graph& graph, Names names) const {
  if (empty()) return;
  std::set<std::string> parts;
  const auto add = [&](const std::vector<std::string>& of_node) {
    for (const std::string& name : of_node) {
      for (std::size_t dot = name.find('.'); dot != std::string::npos;
           dot = name.find('.', dot + 1)) {
        parts.insert(name.substr(0, dot));
      }
      parts.insert(name);
    }
  };
  for (const Node& node : graph.nodes()) {
    add(node.parameters);
    if (names == Names::parameters_and_buffers) add(node.buffers);
  }
  for (const std::string& prefix : prefixes_) {
    if (parts.contains(prefix)) continue;
    const std::vector<std::string> candidates(parts.begin(), parts.end());
    std::vector<std::string> first;
    for (const std::string& part : parts) {
      if (part.find('.') == std::string::npos) first.push_back(part);
    }
    input_error("{}: '{}' is the beginning of no parameter's name in {}{}; its parts are {}",
                place_, prefix, graph.name(), did_you_mean(prefix, candidates), join(first, ", "));
  }
}

}  // namespace tandem
