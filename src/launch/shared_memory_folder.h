#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/subprocess.h"
#include "parallel/placement/launched_job.h"

namespace tandem {

/// A job's own folder in /dev/shm of the launcher's host, for what its ranks and their MPI library
/// share there. Open MPI 4.1 leaves 4 MiB of every rank that is killed together with mpirun, under
/// names that do not say whose they are, and a rank may be killed while what it shares still has a
/// name; here they are the job's, and go with it. The other hosts have no such folder: there
/// mpirun's helper outlives the ranks and removes what is the MPI library's.
///
/// This is the launcher's hold on it. A process of its own removes the folder, and all in it, once
/// the launcher and the ranks of this host have let go, also where all of them are killed.
class SharedMemoryFolder {
 public:
  /// Without a folder, where there can be none, the MPI library does as it would by itself. What
  /// dead jobs of this user left, whose last process was killed too, is removed.
  explicit SharedMemoryFolder(const std::string& job);
  /// Lets go, and waits until the folder is gone, or 15 s where processes of the job do not end: a
  /// rank that is killed gives a GPU's memory back late, and the next start would not find it.
  ~SharedMemoryFolder();
  SharedMemoryFolder(const SharedMemoryFolder&) = delete;
  SharedMemoryFolder& operator=(const SharedMemoryFolder&) = delete;

 private:
  std::filesystem::path path_;
  int lock_ = -1;      // of the folder itself; -1: there is no folder
  pid_t keeper_ = -1;  // which removes it; -1: none
};

/// By which this host's ranks, and their MPI library, use the job's folder, once there is one; not
/// the library where the user's environment says which to use.
EnvironmentChanges shared_memory_variables(const std::string& job,
                                           const ReadEnvironment& environment);

/// The hold of what starts a rank and watches it, and of the rank, which inherits it to its end.
class SharedMemoryFolderHold {
 public:
  /// Of none on hosts where there is no such folder.
  explicit SharedMemoryFolderHold(const std::string& job);
  ~SharedMemoryFolderHold();
  SharedMemoryFolderHold(const SharedMemoryFolderHold&) = delete;
  SharedMemoryFolderHold& operator=(const SharedMemoryFolderHold&) = delete;

  /// shared_memory_variables() where there is a folder, else nothing.
  EnvironmentChanges variables(const ReadEnvironment& environment) const;

 private:
  std::string job_;
  int lock_ = -1;
};

}  // namespace tandem
