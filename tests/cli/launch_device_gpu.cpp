#include <stdexcept>

#include "cli/launch_device.h"
#include "device/gpu_list.h"
#include "support/temporary_folder.h"

namespace tandem::cli {

LaunchDevice launch_device(const std::filesystem::path& /*folder*/) {
  // The first job chooses its kernels, which takes its time; the others find them chosen.
  static const TemporaryFolder cache;
  const std::vector<GpuInfo> gpus = list_visible_gpus().gpus;
  if (gpus.empty()) throw std::runtime_error("no GPU is seen");
  return {.environment = {{"TANDEM_CACHE_DIR", cache.path().string()}},
          .options = {},
          .settings = {"train.device=cuda", "train.log_every=1000", "data.train_size=32000"},
          .gpu = gpus.front().uuid,
          .next_gpu = gpus.size() > 1 ? gpus[1].uuid : std::string(),
          .computes = true,
          .checkpoint_every = 500,
          .start_seconds = 180.0};
}

}  // namespace tandem::cli
