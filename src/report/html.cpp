#include "report/html.h"

#include <algorithm>
#include <cstddef>

namespace tandem {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

bool in_range(char c, int low, int high) {
  const int byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

/// Bytes of the UTF-8 sequence at the start of `text` (Unicode, table 3-7); 0 where it is none.
std::size_t sequence_length(std::string_view text) {
  const int first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  const int low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const int high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (!in_range(text[1], low, high)) return 0;
  const std::string_view rest = text.substr(2, length - 2);
  return std::ranges::all_of(rest, [](char c) { return in_range(c, 0x80, 0xbf); }) ? length : 0;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const char c = text[0];
    if (length == 0 ||
        (length == 1 && (in_range(c, 0, 0x1f) || c == 0x7f) && c != '\n' && c != '\t')) {
      result += replacement;
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace tandem
