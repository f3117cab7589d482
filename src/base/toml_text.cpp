#include "base/toml_text.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"

namespace tandem {

toml::table parse_toml(std::string_view text, std::string_view origin) {
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    input_error("{}:{}: not valid TOML: {}", origin, error.source().begin.line,
                error.description());
  }
}

std::string toml_text(const toml::table& table) {
  // toml++ does not read back all strings that it writes as literal ones or over several lines.
  constexpr auto flags = toml::toml_formatter::default_flags &
                         ~toml::format_flags::allow_literal_strings &
                         ~toml::format_flags::allow_multi_line_strings;
  std::ostringstream text;
  text << toml::toml_formatter(table, flags) << '\n';
  return text.str();
}

std::string quoted_toml(std::string_view text) {
  const toml::value<std::string> value{std::string(text)};
  std::ostringstream quoted;
  quoted << toml::toml_formatter(value, toml::format_flags::none);
  return quoted.str();
}

void set_toml(toml::table& root, std::string_view key, std::string_view value,
              std::string_view origin) {
  toml::table setting = parse_toml(fmt::format("{} = {}", key, value), origin);
  toml::table* into = &root;
  toml::table* from = &setting;
  for (;;) {
    const auto entry = from->begin();
    const std::string name(entry->first.str());
    toml::table* inner = entry->second.as_table();
    toml::node* existing = into->get(name);
    if (inner == nullptr || inner->is_inline() || inner->size() != 1 || existing == nullptr ||
        !existing->is_table()) {
      into->insert_or_assign(name, std::move(entry->second));
      return;
    }
    from = inner;
    into = existing->as_table();
  }
}

void erase_toml(toml::table& root, std::string_view key, std::string_view origin) {
  const toml::table names = parse_toml(fmt::format("{} = 0", key), origin);
  const toml::table* from = &names;
  toml::table* in = &root;
  for (;;) {
    const auto entry = from->begin();
    const std::string name(entry->first.str());
    from = entry->second.as_table();
    toml::node* const found = in->get(name);
    if (found == nullptr) return;
    if (from == nullptr && found->is_table()) {
      input_error("{}: {} is a table; remove its keys one by one", origin, key);
    }
    if (from == nullptr) {
      in->erase(name);
      return;
    }
    if (!found->is_table()) return;
    in = found->as_table();
  }
}

}  // namespace tandem
