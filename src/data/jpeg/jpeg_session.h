#pragma once

// libjpeg for this folder's own files: not a public header. jpeglib.h needs FILE and size_t
// declared before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// libjpeg's state. libjpeg leaves a failed call by longjmp, which skips destructors; so everything
/// that has one lives outside of the guarded calls, and this owner frees libjpeg's memory.
struct JpegSession {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> reason{};

  JpegSession() = default;
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;
  ~JpegSession() { jpeg_destroy_decompress(&info); }
};

/// Runs `step`, which holds nothing with a destructor; false where libjpeg gave up.
template <typename Step>
bool guarded(JpegSession& session, const Step& step) {
  if (setjmp(session.escape) != 0) return false;
  step();
  return true;
}

/// Throws InputError: `name` cannot be decoded for `reason`.
[[noreturn]] void refuse_jpeg(const std::string& name, std::string_view reason);

/// The same for the reason why libjpeg gave up; std::bad_alloc where it had no memory, which says
/// nothing of the file.
[[noreturn]] void refuse_jpeg(const std::string& name, const JpegSession& session);

/// Begins to read `bytes`, which outlive the session, and stops behind the header, APP1 markers
/// kept. Throws InputError where it is no JPEG's or announces more pixels than the bytes can hold.
void read_jpeg_header(JpegSession& session, std::span<const std::uint8_t> bytes,
                      const std::string& name);

}  // namespace tandem
