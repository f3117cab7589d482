#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// A library that a test preloads: who opens /proc/meminfo gets the file $TANDEM_MADE_UP_MEMORY, so
// that a host has as much memory as the test wants, whatever the machine has.

namespace {

using Open = std::FILE* (*)(const char*, const char*);

std::FILE* open_with(const char* function, const char* path, const char* mode) {
  const char* const made_up = std::getenv("TANDEM_MADE_UP_MEMORY");
  if (made_up != nullptr && std::strcmp(path, "/proc/meminfo") == 0) path = made_up;
  void* const found = ::dlsym(RTLD_NEXT, function);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Open>(found)(path, mode);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) std::FILE* fopen(const char* path, const char* mode) {
  return open_with("fopen", path, mode);
}
/// What the standard library's streams call.
__attribute__((visibility("default"))) std::FILE* fopen64(const char* path, const char* mode) {
  return open_with("fopen64", path, mode);
}
}
