#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

/// The private folder of one job on one host: its MPS daemons' pipes and logs, and two files by
/// which the job's processes and the daemons' guard know of each other.
///
///   p0, l0, p1, l1, ...   pipe and log directories of the daemons
///   ranks.lock            every process of the job here holds a shared lock until it is gone
///   ready, failed         what became of the daemons; `failed` holds the reason
class MpsFolder {
 public:
  /// Where a job's folder is: $XDG_RUNTIME_DIR/tandem-UID-JOB-TAG (host_tag()), or in /tmp. Short,
  /// since the paths of sockets in it may have 107 bytes.
  static std::filesystem::path path_of(const std::string& job);

  explicit MpsFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path pipe_directory(int daemon) const;
  std::filesystem::path log_directory(int daemon) const;

  /// Makes the folder, for this user alone. Throws SystemError where it is there or cannot be made.
  void create() const;

  /// Makes this process one of the job's: takes a share of the lock, which the process keeps over
  /// exec and gives back with its end, however that comes. Waits for the folder for up to
  /// `seconds`; throws SystemError where it does not come, or is another user's.
  void join(double seconds) const;
  /// Returns once no process of the job is left here.
  void wait_until_left() const;

  /// For the guard: tells the processes what became of the daemons.
  void report_ready() const;
  void report_failed(const std::string& reason) const;
  /// Returns once the daemons run; throws SystemError with the reason where they do not, or after
  /// `seconds`.
  void wait_ready(double seconds) const;

  /// Whether no process of the job is left here, and no guard either. To be asked once its first
  /// process has had the time to take the lock.
  bool is_deserted() const;
  /// Removes the folder and all in it.
  void remove() const;

  /// Folders beside this one that dead jobs of this user left, since their guard was killed too.
  std::vector<std::filesystem::path> abandoned() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tandem
