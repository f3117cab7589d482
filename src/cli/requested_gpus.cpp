#include "cli/requested_gpus.h"

#include "base/error.h"

namespace tandem {

void require_agreeing_gpus(const std::string& gpus, DeviceKind device) {
  if (gpus != "none" || device != DeviceKind::cuda) return;
  input_error(
      "--gpus none: the config's train.device is \"cuda\"; leave --gpus none out, or set "
      "train.device = \"cpu\"");
}

}  // namespace tandem
