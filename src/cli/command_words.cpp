#include "cli/command_words.h"

namespace tandem {

std::vector<std::string> values_of(const std::vector<std::string>& command,
                                   std::string_view option) {
  std::vector<std::string> values;
  for (std::size_t at = 0; at < command.size(); ++at) {
    const std::string_view word = command[at];
    if (word == option && at + 1 < command.size()) {
      values.push_back(command[at + 1]);
    } else if (word.starts_with(option) && word.substr(option.size()).starts_with('=')) {
      values.emplace_back(word.substr(option.size() + 1));
    }
  }
  return values;
}

}  // namespace tandem
