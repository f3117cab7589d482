#include "fuzz_input.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tandem::fuzz {

MemoryFile::MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  TANDEM_CHECK(descriptor_ >= 0, "no file in memory");
  path_ = fmt::format("/proc/self/fd/{}", descriptor_);
}

MemoryFile::~MemoryFile() { static_cast<void>(::close(descriptor_)); }

const std::filesystem::path& MemoryFile::write(Bytes bytes) {
  const auto size = static_cast<ssize_t>(bytes.size());
  TANDEM_CHECK(::ftruncate(descriptor_, 0) == 0, "cannot empty the file");
  TANDEM_CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == size,
               "cannot write the file");
  return path_;
}

const std::filesystem::path& memory_folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = "/dev/shm/tandem-fuzz-XXXXXX";
      TANDEM_CHECK(::mkdtemp(name.data()) != nullptr, "no folder in /dev/shm");
      path = name;
    }
    ~Folder() {
      std::error_code code;
      std::filesystem::remove_all(path, code);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  // Warnings are printed by rank 0 alone: another rank keeps the fuzzer's own output readable.
  tandem::set_process_rank(1);
  return 0;
}
