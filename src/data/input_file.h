#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace tandem {

/// Reads a file from start to end, inflating it where its first two bytes say gzip (RFC 1952,
/// several members allowed). Every failure is an InputError that names the file.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The most bytes that the file can yield: its size, or 1032 times that for gzip (deflate's
  /// limit; zlib's technical notes). Whoever is about to allocate what a header announces asks this
  /// first.
  std::uint64_t most_bytes() const;
  /// Fills `into` and returns how many bytes there were: fewer only at the end of the file. Throws
  /// where the compressed data are damaged, end early or are followed by something else.
  std::size_t read(std::span<std::uint8_t> into);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The bytes of a file as they are.
std::vector<std::uint8_t> read_whole_file(const std::filesystem::path& path);

}  // namespace tandem
