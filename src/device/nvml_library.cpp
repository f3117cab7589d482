#include "device/nvml_library.h"

#include <dlfcn.h>

#include "base/blocked_signals.h"

namespace tandem::nvml {

std::unique_ptr<Library> Library::load(const char* file, std::string& trouble) {
  const BlockedSignals blocked;  // the driver may start threads of its own
  // Stays where it is: a thread that has used it may outlive its close.
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    trouble = fmt::format("NVML cannot be loaded ({})", dlerror());
    return nullptr;
  }
  auto library = std::unique_ptr<Library>(new Library(handle));
  Status (*init)() = nullptr;
  library->find("nvmlInit_v2", init);
  if (init == nullptr || library->symbol("nvmlDeviceGetHandleByUUID") == nullptr) {
    trouble = fmt::format("{} lacks NVML's functions", file);
    return nullptr;
  }
  const Status status = init();
  if (status != 0) {
    trouble = fmt::format("NVML does not start: {}", library->text(status));
    return nullptr;
  }
  library->started_ = true;
  return library;
}

Library::~Library() {
  Status (*shutdown)() = nullptr;
  find("nvmlShutdown", shutdown);
  // What fails at the end harms nobody.
  if (started_ && shutdown != nullptr) (void)shutdown();
  (void)dlclose(handle_);
}

std::string Library::text(Status status) const {
  const char* (*error_string)(Status) = nullptr;
  find("nvmlErrorString", error_string);
  return error_string != nullptr ? error_string(status) : fmt::format("status {}", status);
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace tandem::nvml
