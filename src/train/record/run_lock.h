#pragma once

#include <sys/file.h>

#include <filesystem>

namespace tandem {

/// While one lives, no other run writes to the folder: an exclusive lock (flock) on
/// FOLDER/run.lock, which holds host and process as text. The system gives the lock up with the
/// process, so the file of a dead run is no obstacle. Where the file system knows no locks a
/// warning says so.
class RunLock {
 public:
  /// What flock(2) is.
  using Locker = int (*)(int descriptor, int operation);

  /// Makes the folder. Throws InputError where that fails, or where another run has the lock.
  explicit RunLock(const std::filesystem::path& folder, Locker lock = ::flock);
  /// Takes the file away, and the folder if it was made here and has stayed empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void make_folder();
  void open();
  /// Whether the lock was got on the file that lies there now.
  bool take(Locker lock);
  bool is_current() const;
  void sign() const;
  void close();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  bool made_folder_ = false;
  int descriptor_ = -1;
};

}  // namespace tandem
