#include "base/toml_text.h"

#include <algorithm>
#include <string>

namespace tandem {
namespace {

constexpr std::size_t npos = std::string_view::npos;

bool is_foreign(char c) { return static_cast<unsigned char>(c) > 127; }

/// The end of the string that begins with a quote at `at`: behind its closing quotes, or at the end
/// of its line or the text where it is never closed; or at what toml++ looks up after a backslash,
/// where that is foreign.
std::size_t string_end(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const bool escapes = quote == '"';
  const bool multi_line = toml.substr(at, 3) == std::string(3, quote);
  const std::size_t length = multi_line ? 3 : 1;
  for (std::size_t i = at + length; i < toml.size(); ++i) {
    if (escapes && toml[i] == '\\') {
      const std::size_t next = toml.find_first_not_of(" \t\r\n", i + 1);
      if (next != npos && is_foreign(toml[next])) return next;
      ++i;
    } else if (!multi_line && toml[i] == '\n') {
      return i;
    } else if (toml[i] == quote && (!multi_line || toml.substr(i, 3) == toml.substr(at, 3))) {
      return i + length;
    }
  }
  return toml.size();
}

}  // namespace

std::size_t find_foreign_byte(std::string_view toml) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  for (std::size_t i = toml.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
       i < toml.size();) {
    if (toml[i] == '#') {
      i = std::min(toml.find('\n', i), toml.size());
    } else if (toml[i] == '"' || toml[i] == '\'') {
      i = string_end(toml, i);
    } else if (is_foreign(toml[i])) {
      return i;
    } else {
      ++i;
    }
  }
  return npos;
}

}  // namespace tandem
