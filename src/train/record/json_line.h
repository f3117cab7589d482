#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// Builds one JSON object on one line, fields in the order of the calls. A key is given once.
class JsonLine {
 public:
  /// Bytes that are not UTF-8 are replaced by U+FFFD.
  JsonLine& text(std::string_view key, std::string_view value);
  JsonLine& integer(std::string_view key, std::int64_t value);
  /// The shortest digits that read back as the same double; null for NaN and infinities, which JSON
  /// has not.
  JsonLine& real(std::string_view key, double value);
  JsonLine& boolean(std::string_view key, bool value);

  /// "{...}" without a line end.
  std::string str() const { return "{" + fields_ + "}"; }

 private:
  JsonLine& add(std::string_view key, std::string_view json);
  std::string fields_;
};

}  // namespace tandem
