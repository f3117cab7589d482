#pragma once

#include <cstddef>
#include <memory>

namespace tandem {

class CudaContext;

/// Page-locked host memory, 256-byte aligned: the device copies from and to it while the host goes
/// on. Throws Error naming the size where there is none. It may outlive the context.
std::shared_ptr<std::byte> allocate_pinned(CudaContext& context, std::size_t bytes);

}  // namespace tandem
