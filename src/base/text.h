#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Levenshtein distance in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" where none is near enough to be a likely typing error
/// (distance at most max(2, a third of the word); of three letters or fewer at most one, which is
/// not the first, or the same letters in another order, whatever their case).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// " (did you mean 'x'?)" for the nearest candidate, else "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// "'x' is not one of a, b", with the nearest where there is one.
std::string not_one_of(std::string_view word, std::span<const std::string> candidates);

/// Whether `key` may be somebody's word for `wanted`: a longer or shorter one, or a mistyped one.
/// Less is mistyped than nearest() allows, since the key may well be a right one of its own.
bool may_mean(std::string_view key, std::string_view wanted);

/// "12.3 MiB", "640 B".
std::string format_bytes(std::uint64_t bytes);

/// "1:02:03" from an hour on, "2:03" below.
std::string format_duration(double seconds);

/// "11,689,512".
std::string format_count(std::int64_t value);

/// The number that `text` wholly is, in from_chars' spelling; nullopt where it is none.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string join(std::span<const std::string> words, std::string_view separator);

/// The text on one line that no terminal obeys: what controls one, as names of files may, becomes
/// "\n" or "\x1b".
std::string one_line(std::string_view text);

}  // namespace tandem
