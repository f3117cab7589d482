#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <cerrno>

namespace tandem {

bool fits_beside_others(std::size_t bytes) {
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) return false;
  return fits_beside_others(bytes, status.f_blocks * status.f_frsize,
                            status.f_bavail * status.f_frsize);
}

bool fits_beside_others(std::size_t bytes, std::uint64_t total, std::uint64_t free) {
  const std::uint64_t spare = total / 8;
  return total == 0 || (free > spare && free - spare > bytes);
}

int reserve_memory(int descriptor, std::size_t bytes) {
  for (;;) {
    const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
    if (error != EINTR) return error;
  }
}

}  // namespace tandem
