#include "train/record/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file_work.h"
#include "base/host_name.h"
#include "base/log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string reason_of(int code) { return std::generic_category().message(code); }

std::string own_name() { return fmt::format("{}, process {}", host_name(), ::getpid()); }

/// " (HOST, process PID)", or nothing while it has not signed yet.
std::string holder_of(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  return std::getline(file, name) && !name.empty() ? fmt::format(" ({})", name) : "";
}

}  // namespace

RunLock::RunLock(const fs::path& folder, Locker lock)
    : folder_(folder), path_(folder / "run.lock") {
  make_folder();
  try {
    do {
      close();
      open();
    } while (!take(lock));
    sign();
  } catch (...) {
    close();
    throw;
  }
}

RunLock::~RunLock() {
  // Before the lock goes: afterwards the file may be the next run's. Whatever stays is harmless.
  std::error_code code;
  fs::remove(path_, code);
  if (made_folder_) fs::remove(folder_, code);
  close();
}

void RunLock::make_folder() {
  file_in_hand(folder_);
  std::error_code code;
  made_folder_ = fs::create_directories(folder_, code);
  if (code) {
    input_error("cannot make the run's folder {}: {}; choose another with --out", folder_.string(),
                code.message());
  }
}

void RunLock::open() {
  file_in_hand(path_);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    input_error("cannot create {}: {}; choose another folder with --out", path_.string(),
                reason_of(errno));
  }
}

bool RunLock::take(Locker lock) {
  int result = 0;
  do {
    result = lock(descriptor_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return is_current();
  switch (errno) {
    case EWOULDBLOCK:
      input_error("another run{} is writing to {}; wait for its end or choose another --out",
                  holder_of(path_), folder_.string());
    case ENOLCK:
    case EOPNOTSUPP:
      log_warning("{}: no locks here ({}); nothing keeps a second run out of this folder",
                  path_.string(), reason_of(errno));
      return true;
    default:
      system_error("cannot lock {}: {}", path_.string(), reason_of(errno));
  }
}

/// A run that ended between open() and the lock has taken its file away.
bool RunLock::is_current() const {
  struct stat mine {};
  struct stat there {};
  return ::fstat(descriptor_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

void RunLock::sign() const {
  const std::string name = own_name() + '\n';
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::write(descriptor_, name.data(), name.size()) != static_cast<ssize_t>(name.size())) {
    system_error("cannot write {}: {}", path_.string(), reason_of(errno));
  }
}

void RunLock::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace tandem
