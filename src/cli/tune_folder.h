#pragma once

#include <filesystem>

namespace tandem {

/// A folder for the files of a tuner's runs, in the system's temporary folder, removed at the end.
/// One that a killed tuner of this user has left on this host is removed when the next is made.
class TuneFolder {
 public:
  /// Throws SystemError where it cannot be made.
  TuneFolder();
  ~TuneFolder();
  TuneFolder(const TuneFolder&) = delete;
  TuneFolder& operator=(const TuneFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // of the folder, while this process lives
};

}  // namespace tandem
