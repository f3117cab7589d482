#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tandem {

/// A file that records are added to. Nothing is buffered here: what write() was given is the
/// system's when it returns, so that other programs can follow the file and a killed process loses
/// nothing. Every failed call throws SystemError with the path and the system's reason.
class AppendFile {
 public:
  enum class Existing { keep, refuse };

  /// Creates the file where it is missing. `existing`: whether one that is there already is added
  /// to or an error.
  explicit AppendFile(std::filesystem::path path, Existing existing = Existing::keep);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view bytes);
  /// Cuts the file to its first `bytes` bytes.
  void truncate(std::size_t bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace tandem
