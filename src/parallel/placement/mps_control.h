#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

/// Talks to the CUDA MPS control daemon whose pipe directory is given, through NVIDIA's program
/// nvidia-cuda-mps-control, which each call runs once. It starts and owns nothing.
class MpsControl {
 public:
  static constexpr const char* program = "nvidia-cuda-mps-control";

  explicit MpsControl(std::filesystem::path pipe_directory, double timeout_seconds = 10.0);

  /// Of the daemon that CUDA programs of this environment use: CUDA_MPS_PIPE_DIRECTORY, else
  /// /tmp/nvidia-mps.
  static MpsControl of_environment();

  const std::filesystem::path& pipe_directory() const { return pipe_directory_; }

  /// What the daemon answers to one command of nvidia-cuda-mps-control's; nothing where there is no
  /// such program or daemon, or none that answers in time.
  std::optional<std::string> ask(const std::string& command) const;

  bool answers() const { return ask("get_server_list").has_value(); }
  /// The MPS servers that run: one for each user who has clients. Nothing where ask() has no
  /// answer.
  std::optional<std::vector<pid_t>> servers() const;
  /// The servers that a client's device fault has spoilt. The daemon gives them no new clients
  /// until all that they have are gone. Nothing where ask() has no answer.
  std::optional<std::vector<pid_t>> faulty_servers() const;
  /// The clients of all servers: processes that compute under this daemon. Nothing where ask() has
  /// no answer.
  std::optional<std::vector<pid_t>> clients() const;

  /// Tells daemon and servers to end, those that still have clients after `seconds`. Returns
  /// whether the daemon took the command.
  bool quit(int seconds) const;

 private:
  std::filesystem::path pipe_directory_;
  double timeout_seconds_;
};

}  // namespace tandem
