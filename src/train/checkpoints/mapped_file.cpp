#include "train/checkpoints/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_work.h"

namespace tandem {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
  file_error(fmt::format("cannot read '{}'", path.string()),
             std::error_code(code, std::generic_category()));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  file_in_hand(path);
  // O_NONBLOCK: a named pipe in the file's place must not hang the program.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(path, errno);
  struct stat status {};
  void* mapped = nullptr;
  int code = 0;
  if (::fstat(descriptor, &status) != 0) {
    code = errno;
  } else if (S_ISDIR(status.st_mode)) {
    code = EISDIR;
  } else if (!S_ISREG(status.st_mode)) {
    code = EINVAL;
  } else if (status.st_size > 0) {  // An empty mapping is refused by the system.
    size_ = static_cast<std::size_t>(status.st_size);
    mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) code = errno;
  }
  ::close(descriptor);
  if (code != 0) fail(path, code);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tandem
