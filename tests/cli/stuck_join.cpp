#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

// A library that a test preloads into the ranks of a job: once the file $TANDEM_STUCK_JOIN is
// there, who waits for the end of a thread waits for ever, as for a device that hangs.

extern "C" __attribute__((visibility("default"))) int pthread_join(pthread_t thread,
                                                                   void** result) {
  const char* const file = std::getenv("TANDEM_STUCK_JOIN");
  const bool is_rank = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  if (is_rank && file != nullptr && ::access(file, F_OK) == 0) {
    for (;;) ::pause();
  }
  void* const found = ::dlsym(RTLD_NEXT, "pthread_join");
  if (found == nullptr) std::abort();
  return reinterpret_cast<int (*)(pthread_t, void**)>(found)(thread, result);
}
