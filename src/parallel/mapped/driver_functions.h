#pragma once

// Included by sources only.

#include <cuda.h>

namespace tandem {

/// Functions of CUDA's driver that its runtime lacks. They are looked up when they are first
/// needed: a machine that builds need have no driver to link.
struct DriverFunctions {
  decltype(&cuMemGetAddressRange) address_range = nullptr;
  decltype(&cuStreamBatchMemOp) batch_mem_op = nullptr;
};

/// Throws SystemError where the driver lacks one.
const DriverFunctions& driver_functions();

/// Throws SystemError unless a call of `function` succeeded.
void check_driver(CUresult result, const char* function);

}  // namespace tandem
