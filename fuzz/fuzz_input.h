#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"

namespace tandem::fuzz {

using Bytes = std::span<const std::uint8_t>;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file in memory with a path, for readers that open files. Its content is replaced by write().
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::filesystem::path& write(Bytes bytes);

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// A folder of this process in memory (/dev/shm), removed at its end, for code that writes files.
const std::filesystem::path& memory_folder();

/// Runs a reader. InputError is the right answer to bytes that are wrong; all else that is thrown,
/// a broken invariant too, ends the program, which is a finding.
template <typename Read>
void refuse_or_read(const Read& read) {
  try {
    read();
  } catch (const InputError&) {
    return;
  }
}

}  // namespace tandem::fuzz

/// libFuzzer's; each target defines it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
/// libFuzzer's, called once.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
