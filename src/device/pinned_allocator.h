#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "device/any_context.h"

namespace tandem {

/// Gives host memory that the context's device copies from while the host goes on; empty where the
/// context's memory is the host's. The context must outlive the function, not the memory.
std::function<std::shared_ptr<std::byte>(std::size_t bytes)> pinned_allocator(AnyContext& context);

}  // namespace tandem
