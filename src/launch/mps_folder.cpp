#include "launch/mps_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/remove_folder.h"
#include "launch/holds_within.h"
#include "launch/old_job_folders.h"
#include "launch/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "ranks.lock";
constexpr const char* ready_name = "ready";
constexpr const char* failed_name = "failed";

constexpr std::chrono::milliseconds look_interval{5};

std::string read_all(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whole or not at all, for whoever waits for the file.
void write_whole(const fs::path& path, const std::string& text) {
  const fs::path draft = path.string() + ".tmp";
  std::ofstream file(draft);
  file << text << std::flush;
  if (!file) system_error("cannot write '{}': {}", draft.string(), std::strerror(errno));
  fs::rename(draft, path);
}

void require_own(const fs::path& path) {
  if (!is_own_folder(path)) {
    system_error("'{}' is not a folder of this user's alone; remove it", path.string());
  }
}

/// With which the names of this user's folders begin.
std::string name_start() { return fmt::format("tandem-{}-", ::geteuid()); }

}  // namespace

fs::path MpsFolder::path_of(const std::string& job) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  fs::path base = "/tmp";
  // A socket's path has room for 107 bytes, and what MPS appends is short.
  constexpr std::size_t longest = 60;
  if (runtime != nullptr && *runtime == '/' && std::strlen(runtime) < longest &&
      ::access(runtime, W_OK | X_OK) == 0) {
    base = runtime;
  }
  return base / job_folder_name(name_start(), job);
}

fs::path MpsFolder::pipe_directory(int daemon) const { return path_ / fmt::format("p{}", daemon); }
fs::path MpsFolder::log_directory(int daemon) const { return path_ / fmt::format("l{}", daemon); }

void MpsFolder::create() const {
  if (::mkdir(path_.c_str(), S_IRWXU) != 0) {
    system_error("cannot make '{}': {}", path_.string(), std::strerror(errno));
  }
}

void MpsFolder::join(double seconds) const {
  if (!holds_within(seconds, look_interval, [&] { return fs::exists(path_); })) {
    system_error("waited {:.0f} s in vain for '{}', which this host's first rank makes", seconds,
                 path_.string());
  }
  require_own(path_);
  // No O_CLOEXEC: the program that this process becomes holds the lock to its end.
  const int lock = ::open((path_ / lock_name).c_str(), O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
  if (lock < 0 || ::flock(lock, LOCK_SH | LOCK_NB) != 0) {
    system_error("cannot lock '{}': {}", (path_ / lock_name).string(), std::strerror(errno));
  }
}

void MpsFolder::wait_until_left() const {
  const int lock = ::open((path_ / lock_name).c_str(), O_RDWR | O_CLOEXEC);
  TANDEM_CHECK(lock >= 0, "'{}' has no lock", path_.string());
  int code = 0;
  while ((code = ::flock(lock, LOCK_EX)) != 0 && errno == EINTR) {
  }
  TANDEM_CHECK(code == 0, "'{}' cannot be locked", path_.string());
}

void MpsFolder::report_ready() const { write_whole(path_ / ready_name, ""); }

void MpsFolder::report_failed(const std::string& reason) const {
  write_whole(path_ / failed_name, reason);
}

void MpsFolder::wait_ready(double seconds) const {
  const bool told = holds_within(seconds, look_interval, [&] {
    return fs::exists(path_ / ready_name) || fs::exists(path_ / failed_name);
  });
  if (!told)
    system_error("the MPS daemon of '{}' is not up after {:.0f} s", path_.string(), seconds);
  if (fs::exists(path_ / failed_name)) throw SystemError(read_all(path_ / failed_name));
}

bool MpsFolder::is_deserted() const {
  const int lock = ::open((path_ / lock_name).c_str(), O_RDWR | O_CLOEXEC);
  // Whoever made the folder ended before it could take its lock, or whoever removed it before it
  // was done.
  if (lock < 0) return errno == ENOENT;
  const bool is_free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  static_cast<void>(::close(lock));  // gives the lock back
  return is_free;
}

std::vector<fs::path> MpsFolder::abandoned() const {
  std::vector<fs::path> found;
  for (const fs::path& path :
       old_job_folders(path_.parent_path(), name_start(), SeenBy::several_hosts)) {
    if (path != path_ && MpsFolder(path).is_deserted()) found.push_back(path);
  }
  return found;
}

void MpsFolder::remove() const {
  // The next job of this user removes what stays.
  static_cast<void>(remove_folder(path_));
}

}  // namespace tandem
