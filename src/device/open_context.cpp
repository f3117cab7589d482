#include "device/open_context.h"

namespace tandem {

bool means_cpu(DeviceKind kind) {
  return kind == DeviceKind::cpu || (kind == DeviceKind::automatic && usable_gpus() == 0);
}

}  // namespace tandem
