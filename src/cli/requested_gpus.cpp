#include "cli/requested_gpus.h"

#include "base/error.h"
#include "base/log.h"
#include "device/open_context.h"

namespace tandem {
namespace {

/// A build without CUDA refuses train.device = "cuda", and computes on nothing then.
bool computes_on_cpus_alone(DeviceKind device) {
  return device == DeviceKind::cpu || (device == DeviceKind::automatic && !built_with_cuda());
}

}  // namespace

std::string requested_gpus(const std::string& asked, DeviceKind device) {
  if (asked == "none" && device == DeviceKind::cuda) {
    input_error(
        "--gpus none: the config's train.device is \"cuda\"; leave --gpus none out, or set "
        "train.device = \"cpu\"");
  }
  if (!asked.empty()) return asked;
  return computes_on_cpus_alone(device) ? "none" : "all";
}

void warn_of_idle_gpus(const std::string& gpus, DeviceKind device) {
  if (gpus == "none" || !computes_on_cpus_alone(device)) return;
  log_warning(
      "--gpus {}: {}: the ranks compute on the CPU, and GPUs that are dealt to them stand idle; "
      "leave --gpus out, or give --gpus none",
      gpus,
      device == DeviceKind::cpu ? "the config's train.device is \"cpu\""
                                : "this Tandem was built without CUDA");
}

}  // namespace tandem
