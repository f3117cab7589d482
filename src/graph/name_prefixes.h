#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

class Graph;

/// Parts of a model, named by the first words of their parameters' and buffers' names: "layer1" is
/// "layer1.0.conv1.weight" and whatever else begins with "layer1.", but not "layer10.0...."; a
/// whole name is itself.
class NamePrefixes {
 public:
  NamePrefixes() = default;
  /// `place`: where they were given, "run.toml:7: train.freeze", for messages.
  explicit NamePrefixes(std::vector<std::string> prefixes, std::string place = {})
      : prefixes_(std::move(prefixes)), place_(std::move(place)) {}

  bool empty() const { return prefixes_.empty(); }
  bool match(std::string_view name) const;
  std::span<const std::string> prefixes() const { return prefixes_; }
  const std::string& place() const { return place_; }

  /// What they are to name: freezing a buffer would mean nothing.
  enum class Names { parameters, parameters_and_buffers };
  /// Throws InputError with the place and the nearest part where a prefix names none of `graph`.
  void check_against(const Graph& graph, Names names = Names::parameters_and_buffers) const;

 private:
  std::vector<std::string> prefixes_;
  std::string place_;
};

}  // namespace tandem
