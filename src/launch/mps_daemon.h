#pragma once

#include <filesystem>
#include <string>

namespace tandem {

/// Ends the MPS daemon of a pipe directory, and its servers: by its own command, and by SIGKILL
/// where that does not help. Returns once they are gone, at once where there are none.
void end_mps_daemon(const std::filesystem::path& pipe_directory);

/// A CUDA MPS control daemon in directories of its own.
class MpsDaemon {
 public:
  /// Starts it, and returns once it answers. The directories are made, in a folder that is there.
  /// Throws SystemError, with the end of its log, where it does not start or answer.
  MpsDaemon(std::filesystem::path pipe_directory, std::filesystem::path log_directory,
            const std::string& visible_devices);
  /// end_mps_daemon(). Leaves the directories.
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

 private:
  void start(const std::string& visible_devices) const;
  std::string log_end() const;

  std::filesystem::path pipe_directory_;
  std::filesystem::path log_directory_;
};

}  // namespace tandem
