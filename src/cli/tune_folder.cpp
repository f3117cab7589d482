#include "cli/tune_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/remove_folder.h"
#include "launch/job_supervisor.h"
#include "launch/old_job_folders.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string name_start() { return fmt::format("tandem-tune-{}-", ::geteuid()); }

/// -1 where it cannot be opened, or where somebody else has a lock that rules `how` out.
int locked(const fs::path& folder, int how) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 || ::flock(file, how | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

void remove_abandoned(const fs::path& base) {
  for (const fs::path& folder : old_job_folders(base, name_start(), SeenBy::several_hosts)) {
    const int lock = locked(folder, LOCK_EX);
    if (lock < 0) continue;
    static_cast<void>(remove_folder(folder));
    ::close(lock);
  }
}

}  // namespace

TuneFolder::TuneFolder() {
  const fs::path base = fs::temp_directory_path();
  remove_abandoned(base);
  path_ = base / job_folder_name(name_start(), new_job_name());
  if (::mkdir(path_.c_str(), S_IRWXU) != 0) {
    system_error("cannot make the folder '{}': {}; set TMPDIR to one that can be written",
                 path_.string(), std::strerror(errno));
  }
  lock_ = locked(path_, LOCK_SH);
}

TuneFolder::~TuneFolder() {
  static_cast<void>(remove_folder(path_));  // what stays in a temporary folder harms nobody
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace tandem
