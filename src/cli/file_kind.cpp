#include "cli/file_kind.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool has_no_bytes(const fs::path& file) {
  std::error_code code;
  return fs::file_size(file, code) == 0 && !code;
}

}  // namespace

bool is_of_kind(const fs::path& file, const FileKind& kind) {
  std::error_code not_there;
  if (!fs::is_regular_file(file, not_there)) return false;
  std::ifstream stream(file, std::ios::binary);
  if (kind.at == 0) stream >> std::ws;  // of text
  std::string start(kind.at + kind.bytes.size(), '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  return stream && start.compare(kind.at, kind.bytes.size(), kind.bytes) == 0;
}

void expect_replaceable(const fs::path& file, const FileKind& kind) {
  std::error_code not_there;
  if (!fs::is_regular_file(file, not_there) || has_no_bytes(file) || is_of_kind(file, kind)) return;
  input_error("'{}' exists and is no {}; choose another name or remove it", file.string(),
              kind.name);
}

void expect_json_can_be_written(const fs::path& file) {
  expect_replaceable(file, json_object);
  if (!std::ofstream(file, std::ios::app)) {
    input_error("--json {}: it cannot be written: {}; name a file in a folder where you may write",
                file.string(), std::strerror(errno));
  }
}

}  // namespace tandem
