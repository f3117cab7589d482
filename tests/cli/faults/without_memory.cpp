#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

// A library that a test preloads into a job: from the moment on in which the file
// $TANDEM_WITHOUT_MEMORY_FILE is there, its ranks that $TANDEM_WITHOUT_MEMORY lists ("1 2") get no
// block of a KiB or more from operator new. What the system refuses a process it refuses at a
// moment that depends on what was freed before.

namespace {

bool is_listed() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const listed = std::getenv("TANDEM_WITHOUT_MEMORY");
  const bool is_ours = std::strcmp(program_invocation_short_name, "tandem") == 0;
  if (!is_ours || rank == nullptr || listed == nullptr) return false;
  const std::string words = std::string(" ") + listed + " ";
  return words.find(std::string(" ") + rank + " ") != std::string::npos;
}

bool is_refused(std::size_t bytes) {
  constexpr std::size_t least = 1024;
  if (bytes < least) return false;
  static const char* const file = is_listed() ? std::getenv("TANDEM_WITHOUT_MEMORY_FILE") : nullptr;
  return file != nullptr && ::access(file, F_OK) == 0;
}

void* require(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

// The other forms of new, and delete, are the standard library's, which call these and free().
__attribute__((visibility("default"))) void* operator new(std::size_t bytes) {
  return require(is_refused(bytes) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes));
}

__attribute__((visibility("default"))) void* operator new(std::size_t bytes,
                                                          std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  const std::size_t whole = (bytes + align - 1) / align * align;
  return require(is_refused(bytes) ? nullptr : std::aligned_alloc(align, whole));
}
