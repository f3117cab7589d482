#include "device/cpu_context.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "device/onednn.h"
#include "device/out_of_memory.h"

namespace tandem {

// A primitive made for more threads than OpenMP will start waits for the missing ones for ever.
CpuContext::CpuContext(int threads) : threads_(std::min(threads, omp_get_thread_limit())) {
  TANDEM_CHECK(threads >= 1, "a CPU context needs at least one thread, not {}", threads);
  activate();
  onednn_ = std::make_unique<OneDnn>();
}

CpuContext::~CpuContext() = default;
CpuContext::CpuContext(CpuContext&&) noexcept = default;
CpuContext& CpuContext::operator=(CpuContext&&) noexcept = default;

void CpuContext::activate() const {
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

void* CpuContext::allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) {
    throw OutOfMemory(fmt::format("out of memory: {} could not be allocated", format_bytes(bytes)),
                      bytes);
  }
  return memory;
}

void CpuContext::deallocate(void* memory) noexcept { std::free(memory); }

std::string onednn_version() { return onednn::version(); }

}  // namespace tandem
