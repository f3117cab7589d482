#include "parallel/mapped/driver_functions.h"

#include "device/cuda_check.h"

namespace tandem {
namespace {

template <typename Function>
void look_up(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  // Of several versions of a function that of CUDA 12.0, which is what headers have declared since;
  // their own version could be beyond the driver's.
  constexpr unsigned int version = 12000;
  TANDEM_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result));
#else
  TANDEM_CUDA_CHECK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
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
