#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tandem {

/// Writes a file that appears whole or not at all: the bytes go to a temporary name in the same
/// folder, are fsynced, and are renamed over `path` by commit(), which syncs the folder too. A
/// writer destroyed without commit() removes its temporary file and leaves `path` untouched.
/// A link is followed. Throws InputError where the file cannot be created there, or where what
/// stands there is no ordinary file; SystemError with the path and the system's reason where memory
/// or open files are used up, and where a later call fails (a full disk).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void push_out(std::size_t written);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::size_t written_ = 0;    // bytes
  std::size_t in_memory_ = 0;  // of those that the system may not have written to the disk yet
};

/// Makes renames in a folder durable, as far as its file system can. Throws as AtomicFile does.
void sync_folder(const std::filesystem::path& folder);

/// Throws InputError where `output` is `input`, by whatever path or link: it would be replaced by
/// what is made of it.
void expect_other_file(const std::filesystem::path& output, const std::filesystem::path& input);

}  // namespace tandem
