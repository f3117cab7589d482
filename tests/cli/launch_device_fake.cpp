#include <cstdlib>

#include "cli/launch_device.h"

// Driver and MPS daemon are made up: tests/launch.

namespace tandem::cli {

LaunchDevice launch_device(const std::filesystem::path& folder) {
  const std::string path = std::getenv("PATH");
  return {.environment = {{"PATH", TANDEM_FAKE_MPS_FOLDER ":" + path},
                          {"LD_LIBRARY_PATH", TANDEM_FAKE_NVML_FOLDER},
                          {"FAKE_GPUS", "GPU-a GPU-b"},
                          {"FAKE_MPS_JOURNAL", (folder / "journal").string()}},
          .options = {"--gpus", "all"},  // by themselves ranks on the CPU would get none
          .settings = {"train.device=cpu"},
          .gpu = "GPU-a",
          .next_gpu = "GPU-b",
          .checkpoint_every = 20,
          .start_seconds = 40.0};
}

}  // namespace tandem::cli
