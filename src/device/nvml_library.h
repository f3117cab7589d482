#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "device/nvml_api.h"

namespace tandem::nvml {

/// NVML, loaded and initialised. It comes with the driver: nothing is linked.
class Library {
 public:
  /// NVML's file, wherever the driver put it.
  static constexpr const char* default_file = "libnvidia-ml.so.1";

  /// Null with the reason where there is no NVML to be used.
  static std::unique_ptr<Library> load(const char* file, std::string& trouble);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Null where the driver's NVML is older than the function.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /// NVML's words for a status.
  std::string text(Status status) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* symbol(const char* name) const;

  void* handle_;
  bool started_ = false;
};

}  // namespace tandem::nvml
