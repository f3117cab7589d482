#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "base/process_report.h"

namespace tandem {

/// A file for reports, as whoever watches children has one.
class ReportFile {
 public:
  explicit ReportFile(const char* name) : descriptor_(::memfd_create(name, 0)) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, bytes) != 0) std::abort();
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED) std::abort();
  }
  ~ReportFile() {
    ::munmap(memory_, bytes);
    ::close(descriptor_);
  }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  int descriptor() const { return descriptor_; }
  HostClaims& claims() const { return *static_cast<HostClaims*>(memory_); }
  ProcessReport& at(std::size_t offset) const {
    return *reinterpret_cast<ProcessReport*>(static_cast<std::byte*>(memory_) + offset);
  }

 private:
  static constexpr std::size_t bytes = 4096;
  int descriptor_;
  void* memory_;
};

}  // namespace tandem
