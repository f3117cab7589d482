#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_work.h"
#include "base/temporary_name.h"

namespace tandem {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int code) {
  system_error("{} '{}': {}", what, path.string(), std::generic_category().message(code));
}

/// Where the bytes go: what a link points to, so that it stays a link. Devices, pipes and folders
/// are refused, for renaming over them would replace them.
std::filesystem::path target_of(std::filesystem::path path) {
  file_in_hand(path);
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (code == std::errc::too_many_symbolic_link_levels) {
    fail("cannot follow the link", path, code.value());
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    input_error("'{}' exists and is no ordinary file{}; choose another name", path.string(),
                std::filesystem::is_directory(status) ? " but a folder" : "");
  }
  // By hand, because the last link may point to nothing yet. status() has seen that there is no
  // loop.
  while (std::filesystem::is_symlink(path, code)) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, code);
    if (code) fail("cannot follow the link", path, code.value());
    path = path.parent_path() / target;
  }
  return path;
}

/// What goes to the disk at once. A whole checkpoint in the system's memory would have fsync() take
/// minutes on a slow disk, which nobody could tell from one that does not answer.
constexpr std::size_t part = std::size_t{8} << 20U;

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(target_of(std::move(path))), temporary_(temporary_name(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    const std::error_code code(errno, std::generic_category());
    const std::filesystem::path folder = path_.parent_path();
    std::error_code ignored;
    if (code == std::errc::no_such_file_or_directory && !folder.empty() &&
        !std::filesystem::exists(folder, ignored)) {
      input_error("cannot create '{}': {}; make the folder '{}', or name another file",
                  path_.string(), code.message(), folder.string());
    }
    file_error(fmt::format("cannot create '{}'", path_.string()), code);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* cursor = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, cursor, std::min(bytes, part));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write", path_, errno);
    }
    cursor += written;
    bytes -= static_cast<std::size_t>(written);
    push_out(static_cast<std::size_t>(written));
  }
}

void AtomicFile::push_out(std::size_t written) {
  file_moved();
  written_ += written;
  in_memory_ += written;
  if (in_memory_ < part) return;
  in_memory_ = 0;
  // All there is so far; nobody but commit() makes it durable.
  const unsigned how =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const bool pushed = ::sync_file_range(descriptor_, 0, 0, how) == 0;
  const bool unknown_here = errno == EINVAL || errno == ENOSYS || errno == ESPIPE;
  if (!pushed && !unknown_here) fail("cannot write", path_, errno);
  file_moved();
}

void AtomicFile::commit() {
  file_in_hand(path_);
  file_syncs(written_);
  if (::fsync(descriptor_) != 0) fail("cannot sync", path_, errno);
  file_moved();
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    fail("cannot finish", path_, code);
  }
  file_moved();
  sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail("cannot open", folder, errno);
  // Some file systems refuse to sync a folder (EINVAL); the rename is then as durable as they make
  // it.
  const int synced = ::fsync(directory);
  const int code = errno;
  ::close(directory);
  if (synced != 0 && code != EINVAL) fail("cannot sync", folder, code);
}

void expect_other_file(const std::filesystem::path& output, const std::filesystem::path& input) {
  std::error_code neither_is_there;
  if (std::filesystem::equivalent(output, input, neither_is_there)) {
    input_error("'{}' is read here and would be replaced; choose another name for what is written",
                output.string());
  }
}

}  // namespace tandem
