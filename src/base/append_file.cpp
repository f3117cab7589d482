#include "base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_work.h"

namespace tandem {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  const int code = errno;
  system_error("cannot {} '{}': {}", what, path.string(), std::generic_category().message(code));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, Existing existing) : path_(std::move(path)) {
  file_in_hand(path_);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), existing == Existing::keep ? flags : flags | O_EXCL, 0644);
  if (descriptor_ < 0) fail("open", path_);
}

AppendFile::~AppendFile() {
  // Every record was checked as it was written; there is nothing left that closing could lose.
  if (descriptor_ >= 0) static_cast<void>(::close(descriptor_));
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void AppendFile::write(std::string_view bytes) {
  file_in_hand(path_);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail("write", path_);
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendFile::truncate(std::size_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("truncate", path_);
}

}  // namespace tandem
