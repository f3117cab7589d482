#include "device/cuda_version.h"

#include <fmt/format.h>

namespace tandem {

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_problem(int driver, int toolkit) {
  if (driver / 1000 >= toolkit / 1000) return {};
  return fmt::format(
      "the NVIDIA driver supports CUDA {}, but Tandem was built with {}; update the driver",
      cuda_version_text(driver), cuda_version_text(toolkit));
}

}  // namespace tandem
