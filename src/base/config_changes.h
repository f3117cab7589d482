#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// A config's dotted keys with their values, as TOML writes them, in the order of its tables.
/// `origin` stands for the file name in messages. Throws InputError where the text is not TOML.
std::vector<std::pair<std::string, std::string>> flat_config(std::string_view text,
                                                             std::string_view origin);

/// What differs between two configs, a line for each dotted key: "optimizer.lr: 0.1, now 0.05".
/// Throws InputError where one is not TOML.
std::vector<std::string> config_changes(std::string_view before, std::string_view now);

}  // namespace tandem
