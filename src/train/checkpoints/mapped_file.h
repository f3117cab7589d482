#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace tandem {

/// A whole file as read-only memory, mapped while this object lives. The file must not shrink
/// meanwhile; files that AtomicFile wrote are only ever replaced, which leaves the mapping intact.
class MappedFile {
 public:
  /// Throws InputError where the file is missing, unreadable or no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem
