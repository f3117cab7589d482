#pragma once

#include <filesystem>
#include <string>

namespace tandem {

/// A CUDA MPS control daemon in directories of its own.
class MpsDaemon {
 public:
  /// Starts it, and returns once it answers. The directories are made, in a folder that is there.
  /// Throws SystemError, with the end of its log, where it does not start or answer.
  MpsDaemon(std::filesystem::path pipe_directory, std::filesystem::path log_directory,
            const std::string& visible_devices);
  /// Ends it and its servers: by its own command, and by SIGKILL where that does not help. Leaves
  /// the directories.
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

 private:
  void start(const std::string& visible_devices) const;
  void end() const;
  std::string log_end() const;

  std::filesystem::path pipe_directory_;
  std::filesystem::path log_directory_;
};

}  // namespace tandem
