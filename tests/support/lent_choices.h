#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "device/choices_file.h"
#include "device/cuda_context.h"
#include "device/cuda_libraries.h"
#include "device/kernel_choices.h"

namespace tandem {

/// Keeps choices, names by keys, as those of a device like this one but for one multiprocessor
/// more, in the cache of the moment.
inline void lend(const CudaDevice& device, const std::map<std::string, std::string>& names) {
  KernelChoices lender(
      choices_file(choices_kind(device.name, device.multiprocessors + 1, cudnnGetVersion(),
                                static_cast<std::size_t>(cublasLtGetVersion()))));
  for (const auto& [key, name] : names) lender.record(key, name);
}

/// The choices that are kept for this device there.
inline std::string kept(const CudaDevice& device) {
  return KernelChoices(
             choices_file(choices_kind(device.name, device.multiprocessors, cudnnGetVersion(),
                                       static_cast<std::size_t>(cublasLtGetVersion()))))
      .text();
}

}  // namespace tandem
