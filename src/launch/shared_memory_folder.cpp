#include "launch/shared_memory_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/log.h"
#include "base/remove_folder.h"
#include "base/shared_memory.h"
#include "launch/detach.h"
#include "launch/holds_within.h"
#include "launch/old_job_folders.h"
#include "launch/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* base = "/dev/shm";
constexpr const char* open_mpi_variable = "OMPI_MCA_btl_vader_backing_directory";

/// With which the names of this user's folders begin.
std::string name_start() { return fmt::format("tandem-job-{}-", ::geteuid()); }

fs::path path_of(const std::string& job) {
  return fs::path(base) / job_folder_name(name_start(), job);
}

/// -1 where it cannot be opened. The system gives locks of it back when their process ends.
int open_folder(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Fails where somebody is about to remove it.
int open_shared(const fs::path& path) {
  const int folder = open_folder(path);
  if (folder < 0 || ::flock(folder, LOCK_SH | LOCK_NB) == 0) return folder;
  ::close(folder);
  return -1;
}

void remove_abandoned() {
  for (const fs::path& path : old_job_folders(base, name_start(), SeenBy::this_host)) {
    const int folder = open_folder(path);
    if (folder < 0) continue;
    if (::flock(folder, LOCK_EX | LOCK_NB) == 0) static_cast<void>(remove_folder(path));
    ::close(folder);
  }
}

/// In the keeper, a fork of the launcher, where the C library keeps memory usable.
[[noreturn]] void keep(const fs::path& path) {
  detach();
  const int folder = open_folder(path);
  int code = 0;
  while ((code = ::flock(folder, LOCK_EX)) != 0 && errno == EINTR) {
  }
  // mpirun, which holds no lock, may be removing what was the ranks'.
  const bool removed = code == 0 && remove_folder(path);
  ::_exit(removed ? 0 : 1);
}

}  // namespace

SharedMemoryFolder::SharedMemoryFolder(const std::string& job) : path_(path_of(job)) {
  remove_abandoned();
  if (::mkdir(path_.c_str(), S_IRWXU) != 0) {
    log_debug("cannot make '{}': {}", path_.string(), std::strerror(errno));
    return;
  }
  lock_ = open_shared(path_);
  keeper_ = ::fork();
  if (keeper_ == 0) keep(path_);
}

SharedMemoryFolder::~SharedMemoryFolder() {
  if (lock_ < 0) return;
  ::close(lock_);
  int status = 0;
  const bool kept = keeper_ > 0 && holds_within(15.0, std::chrono::milliseconds(5), [&] {
                      return ::waitpid(keeper_, &status, WNOHANG) == keeper_;
                    });
  const bool removed = kept && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  // What stays the next launcher removes.
  if (!removed) static_cast<void>(remove_folder(path_));
}

EnvironmentChanges shared_memory_variables(const std::string& job,
                                           const ReadEnvironment& environment) {
  const std::string path = path_of(job).string();
  EnvironmentChanges changes{{shared_memory_folder_variable, path}};
  if (environment(open_mpi_variable) == nullptr) changes.emplace_back(open_mpi_variable, path);
  return changes;
}

SharedMemoryFolderHold::SharedMemoryFolderHold(const std::string& job) : job_(job) {
  const fs::path path = path_of(job);
  if (is_own_folder(path)) lock_ = open_shared(path);
  // What ends the rank's watcher need not have ended the rank.
  if (lock_ >= 0) ::fcntl(lock_, F_SETFD, 0);
}

SharedMemoryFolderHold::~SharedMemoryFolderHold() {
  if (lock_ >= 0) ::close(lock_);
}

EnvironmentChanges SharedMemoryFolderHold::variables(const ReadEnvironment& environment) const {
  return lock_ < 0 ? EnvironmentChanges{} : shared_memory_variables(job_, environment);
}

}  // namespace tandem
