#include "parallel/gather_text.h"

#include <algorithm>

namespace tandem {
namespace {

/// "a, b and c".
std::string enumeration(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

std::string enumeration(std::span<const int> numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return enumeration(words);
}

void add_new(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

}  // namespace

std::vector<std::int64_t> all_gather_values(Communicator& communicator,
                                            std::span<const std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::int64_t> mine(values.begin(), values.end());
  std::vector<std::int64_t> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(Tensor(mine.data(), {count}, DType::i64),
                          Tensor(all.data(), {communicator.size(), count}, DType::i64));
  return all;
}

std::vector<std::string> all_gather_text(Communicator& communicator, std::string_view text) {
  const auto length = static_cast<std::int64_t>(text.size());
  const std::vector<std::int64_t> lengths = all_gather_values(communicator, {&length, 1});
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string mine(text);
  mine.resize(static_cast<std::size_t>(longest));
  std::string all(mine.size() * lengths.size(), '\0');
  communicator.all_gather(Tensor(mine.data(), {longest}, DType::u8),
                          Tensor(all.data(), {communicator.size(), longest}, DType::u8));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * mine.size(), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

std::string broadcast_text(Communicator& communicator, std::string text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  communicator.broadcast(Tensor(&length, {1}, DType::i64), root);
  text.resize(static_cast<std::size_t>(length));
  communicator.broadcast(Tensor(text.data(), {length}, DType::u8), root);
  return text;
}

std::string ranks_text(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + enumeration(ranks);
}

std::string processes_text(std::span<const int> processes) {
  return (processes.size() == 1 ? "process " : "processes ") + enumeration(processes);
}

std::string who_has_what(std::span<const std::string> texts, std::span<const std::string> hosts) {
  std::vector<std::string> kinds;
  for (const std::string& text : texts) add_new(kinds, text);
  std::string message;
  for (const std::string& kind : kinds) {
    std::vector<int> ranks;
    std::vector<std::string> places;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      if (texts[rank] != kind) continue;
      ranks.push_back(static_cast<int>(rank));
      if (!hosts.empty()) add_new(places, hosts[rank]);
    }
    if (!message.empty()) message += "; ";
    message += fmt::format("{}{}{} {} {}", ranks_text(ranks), places.empty() ? "" : " on ",
                           enumeration(places), ranks.size() == 1 ? "has" : "have", kind);
  }
  return message;
}

}  // namespace tandem
