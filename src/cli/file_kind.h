#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tandem {

/// By which bytes files of a kind are known.
struct FileKind {
  std::string_view name;   ///< for messages: "JSON object"
  std::string_view bytes;  ///< that each of them has
  std::size_t at = 0;      ///< from this byte on; 0: of text, behind any blanks
};

inline constexpr FileKind json_object{.name = "JSON object", .bytes = "{"};
/// Its header's length, far below 2^40, and the header, which is a JSON object.
inline constexpr FileKind safetensors_kind{
    .name = "safetensors file", .bytes = std::string_view("\0\0\0{", 4), .at = 5};

/// Whether `file` is an ordinary file of that kind.
bool is_of_kind(const std::filesystem::path& file, const FileKind& kind);

/// Throws InputError where an ordinary file stands there that is neither empty nor of the kind
/// which is to be written: somebody's notes are not to be replaced.
void expect_replaceable(const std::filesystem::path& file, const FileKind& kind);

/// The same for the file of --json, and where it cannot be written: before minutes of work, not
/// after. What is there stays until there is something better.
void expect_json_can_be_written(const std::filesystem::path& file);

}  // namespace tandem
