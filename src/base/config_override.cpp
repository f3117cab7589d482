#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/config_document.h"
#include "base/config_table.h"
#include "base/error.h"
#include "base/toml_text.h"

namespace tandem {
namespace {

constexpr std::string_view sign = "--set ";  // an assignment's origin begins with it

/// Bare TOML keys joined by dots: nothing else, or a '#' or a '[' would make another line of it.
bool is_dotted_key(std::string_view key) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  bool part = false;
  for (const char c : key) {
    if (c == '.' ? !part : !is_part(c)) return false;
    part = c != '.';
  }
  return part;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

}  // namespace

std::string ConfigTable::key_of(std::string_view assignment) {
  return std::string(
      trimmed(assignment.substr(0, std::min(assignment.find('='), assignment.size()))));
}

void ConfigTable::override_key(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = key_of(assignment);
  // It could smuggle in a second key, and an error is one line.
  if (const std::size_t end = assignment.find_first_of("\r\n"); end != std::string_view::npos) {
    input_error("--set {}: a line break follows; expected key=value in one line",
                assignment.substr(0, end));
  }
  if (equals == std::string_view::npos || !is_dotted_key(key)) {
    input_error("--set {}: expected key=value, for instance optimizer.lr=0.1", assignment);
  }
  const std::string_view value = trimmed(assignment.substr(equals + 1));
  const std::string origin = fmt::format("{}{}", sign, assignment);
  document_->has_overrides = true;
  if (value == "unset") {
    erase_toml(document_->root, key, origin);
    return;
  }
  try {
    set_toml(document_->root, key, value, origin);
  } catch (const InputError&) {
    set_string(key, value, origin);
  }
}

void ConfigTable::set_string(std::string_view key, std::string_view value,
                             std::string_view origin) {
  const std::string quoted = quoted_toml(value);
  // toml++ writes something else for bytes that are not UTF-8.
  if (parse_toml("text = " + quoted, origin)["text"].value_or(std::string()) != value) {
    input_error("{}: {}: not UTF-8, as all text of a config must be", origin, key);
  }
  set_toml(document_->root, key, quoted, origin);
}

std::optional<ConfigTable::Assignment> ConfigTable::assignment_of(std::string_view key) const {
  const toml::node* const node = node_->table->get(key);
  const std::shared_ptr<const std::string> origin = node->source().path;
  if (origin == nullptr || !origin->starts_with(sign)) return std::nullopt;
  // A string is what it is to be; a list or a table has been meant as one.
  if (node->is_string() || node->is_array() || node->is_table()) return std::nullopt;
  const std::string_view assignment = std::string_view(*origin).substr(sign.size());
  if (key_of(assignment) != full_key(key)) return std::nullopt;
  return Assignment{.value = std::string(trimmed(assignment.substr(assignment.find('=') + 1))),
                    .origin = *origin};
}

}  // namespace tandem
