#include "parallel/mapped/driver_functions.h"

#include "device/cuda_check.h"

namespace tandem {
namespace {

/// By the function that the toolkit has: the first one came with 12.5, the other one went
/// with 13.0. A template, since only there what is not declared may be named.
template <typename Result>
cudaError_t entry_point(const char* name, void** found, Result* result) {
  // Of several versions of a function that of CUDA 12.0, which is what headers have declared since;
  // their own version could be beyond the driver's.
  constexpr unsigned int version = 12000;
  if constexpr (requires {
                  cudaGetDriverEntryPointByVersion(name, found, version, cudaEnableDefault, result);
                }) {
    return cudaGetDriverEntryPointByVersion(name, found, version, cudaEnableDefault, result);
  } else {
    return cudaGetDriverEntryPoint(name, found, cudaEnableDefault, result);
  }
}

template <typename Function>
void look_up(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  TANDEM_CUDA_CHECK(entry_point(name, &found, &result));
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    system_error("the NVIDIA driver has no {}; install a newer one", name);
  }
  function = reinterpret_cast<Function>(found);
}

DriverFunctions look_up_all() {
  DriverFunctions functions;
  look_up("cuMemGetAddressRange", functions.address_range);
  look_up("cuStreamBatchMemOp", functions.batch_mem_op);
  return functions;
}

}  // namespace

const DriverFunctions& driver_functions() {
  static const DriverFunctions functions = look_up_all();
  return functions;
}

void check_driver(CUresult result, const char* function) {
  if (result != CUDA_SUCCESS) {
    system_error("CUDA's driver failed: error {} in {}", static_cast<int>(result), function);
  }
}

}  // namespace tandem
