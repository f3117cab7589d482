#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tandem::cli {

/// What `tandem launch` finds in a test: two made-up GPUs, GPU-a and GPU-b, whose ranks compute on
/// the CPU (launch_device_fake.cpp), or this machine's (launch_device_gpu.cpp). A test program is
/// linked with one of them.
struct LaunchDevice {
  std::vector<std::pair<std::string, std::string>> environment;  ///< of every command
  /// Of every `tandem launch` that says nothing of GPUs.
  std::vector<std::string> options;
  std::vector<std::string> settings;  ///< of every training, as for --set
  std::string gpu;                    ///< the first one's UUID
  std::string next_gpu;               ///< the second one's; empty: there is none
  bool computes = false;              ///< whether ranks say what they compute on
  int checkpoint_every = 1;           ///< steps; some in a second
  double start_seconds = 1.0;         ///< at most, for a job to come to its first checkpoint
};

/// What ranks on that GPU say behind their place: ", UUID", nothing where they compute on the CPU.
inline std::string used(const LaunchDevice& device, const std::string& gpu) {
  return device.computes ? ", " + gpu : std::string();
}

/// `folder`: the test's own.
LaunchDevice launch_device(const std::filesystem::path& folder);

}  // namespace tandem::cli
