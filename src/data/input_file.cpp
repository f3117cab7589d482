#include "data/input_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file_work.h"

namespace tandem {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

/// Where the program has used up what it may have, the file is none the worse.
[[noreturn]] void cannot_read(const std::filesystem::path& path, const std::error_code& code) {
  if (is_shortage(code)) file_error(fmt::format("{}: cannot be read", path.string()), code);
  input_error("{}: cannot be read ({}); check its permissions", path.string(), code.message());
}

FileHandle open_for_reading(const std::filesystem::path& path, std::uint64_t& size) {
  file_in_hand(path);
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) {
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored)) {
      input_error("{}: a link that cannot be followed ({}); mend or remove it", path.string(),
                  code.message());
    }
    // Of a file that is not there status() says so by its type.
    if (status.type() != std::filesystem::file_type::not_found) cannot_read(path, code);
    input_error("{}: no such file; check the path", path.string());
  }
  // Before it is opened: opening a pipe waits for a writer.
  if (!std::filesystem::is_regular_file(status)) {
    input_error("{}: not a regular file{}; check the path", path.string(),
                std::filesystem::is_directory(status) ? " but a folder" : "");
  }
  size = std::filesystem::file_size(path, code);
  FileHandle file(std::fopen(path.c_str(), "rb"));
  if (!file) code = {errno, std::generic_category()};
  if (code) cannot_read(path, code);
  return file;
}

/// Reads up to `bytes`; fewer only at the end of the file.
std::size_t read_bytes(std::FILE* file, void* into, std::size_t bytes, const std::string& name) {
  constexpr std::size_t part = std::size_t{8} << 20U;
  auto* const bytes_of = static_cast<std::uint8_t*>(into);
  std::size_t got = 0;
  while (got < bytes) {
    const std::size_t wanted = std::min(bytes - got, part);
    const std::size_t more = std::fread(bytes_of + got, 1, wanted, file);
    got += more;
    file_moved();
    if (more == wanted) continue;
    if (std::ferror(file) == 0) break;
    input_error("{}: reading failed ({}); check the disk", name, std::strerror(errno));
  }
  return got;
}

}  // namespace

struct InputFile::State {
  std::string name;
  std::uint64_t size = 0;
  FileHandle file;
  bool gzip = false;
  bool ended = false;  ///< the last gzip member has ended
  z_stream stream{};
  std::array<std::uint8_t, 65536> chunk{};

  ~State() {
    if (gzip) inflateEnd(&stream);
  }

  /// Makes sure that there is unread input; false at the end of the file.
  bool refill() {
    if (stream.avail_in > 0) return true;
    stream.next_in = chunk.data();
    stream.avail_in = static_cast<uInt>(read_bytes(file.get(), chunk.data(), chunk.size(), name));
    return stream.avail_in > 0;
  }

  /// After a member: another may follow, anything else must not.
  void begin_next_member() {
    ended = !refill();
    if (ended) return;
    if (*stream.next_in != 0x1f) {
      input_error("{}: bytes follow the end of the gzip data; the file is damaged, fetch it again",
                  name);
    }
    TANDEM_CHECK(inflateReset(&stream) == Z_OK, "zlib refused to reset for {}", name);
  }

  std::size_t inflate_into(std::span<std::uint8_t> into) {
    constexpr std::size_t most_at_once = std::size_t{1} << 30;
    std::size_t made = 0;
    while (made < into.size() && !ended) {
      if (!refill()) {
        input_error(
            "{}: truncated: the gzip data end early after {} unpacked bytes; fetch it again", name,
            stream.total_out);
      }
      const std::size_t wanted = std::min(into.size() - made, most_at_once);
      stream.next_out = into.data() + made;
      stream.avail_out = static_cast<uInt>(wanted);
      const int code = inflate(&stream, Z_NO_FLUSH);
      made += wanted - stream.avail_out;
      if (code == Z_STREAM_END) {
        begin_next_member();
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        input_error("{}: damaged gzip data ({}); fetch it again", name,
                    stream.msg != nullptr ? stream.msg : "unknown reason");
      }
    }
    return made;
  }
};

InputFile::InputFile(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.name = path.string();
  s.file = open_for_reading(path, s.size);
  s.refill();
  if (s.stream.avail_in >= 2 && s.chunk[0] == 0x1f && s.chunk[1] == 0x8b) {
    constexpr int gzip_only = 15 + 16;
    TANDEM_CHECK(inflateInit2(&s.stream, gzip_only) == Z_OK, "zlib cannot start for {}", s.name);
    s.gzip = true;
  }
}

InputFile::~InputFile() = default;

std::uint64_t InputFile::most_bytes() const {
  return state_->gzip ? state_->size * 1032 : state_->size;
}

std::size_t InputFile::read(std::span<std::uint8_t> into) {
  State& s = *state_;
  if (s.gzip) return s.inflate_into(into);
  const std::size_t buffered = std::min<std::size_t>(s.stream.avail_in, into.size());
  std::memcpy(into.data(), s.stream.next_in, buffered);
  s.stream.next_in += buffered;
  s.stream.avail_in -= static_cast<uInt>(buffered);
  const auto rest = into.subspan(buffered);
  return buffered + read_bytes(s.file.get(), rest.data(), rest.size(), s.name);
}

std::vector<std::uint8_t> read_whole_file(const std::filesystem::path& path) {
  std::uint64_t size = 0;
  const FileHandle file = open_for_reading(path, size);
  std::vector<std::uint8_t> bytes(size);
  const std::size_t got = read_bytes(file.get(), bytes.data(), bytes.size(), path.string());
  if (got != bytes.size()) {
    input_error("{}: ended after {} of {} bytes; is another program writing it?", path.string(),
                got, bytes.size());
  }
  return bytes;
}

}  // namespace tandem
