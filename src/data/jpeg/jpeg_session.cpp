#include "data/jpeg/jpeg_session.h"

#include <jerror.h>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

[[noreturn]] void on_error(j_common_ptr info) {
  auto* session = static_cast<JpegSession*>(info->client_data);
  info->err->format_message(info, session->reason.data());
  std::longjmp(session->escape, 1);
}

/// Warnings (level -1) that cost no pixels are passed over. After any other, such as a premature
/// end or a bad code, libjpeg would invent pixels, so those are errors.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      ++info->err->num_warnings;
      return;
    default:
      on_error(info);
  }
}

void on_output(j_common_ptr) {}

/// Of which libjpeg keeps up to 6 bytes a pixel. Where there is no memory for a larger image, it is
/// the image's fault.
constexpr std::uint64_t most_pixels_at_once = std::uint64_t{1} << 27U;

std::uint64_t pixels_of(const JpegSession& session) {
  return std::uint64_t{session.info.image_width} * session.info.image_height;
}

}  // namespace

void refuse_jpeg(const std::string& name, std::string_view reason) {
  input_error("{}: cannot be decoded as JPEG ({}); replace or remove it", name, reason);
}

void refuse_jpeg(const std::string& name, const JpegSession& session) {
  if (session.errors.msg_code == JERR_OUT_OF_MEMORY) {
    if (pixels_of(session) <= most_pixels_at_once) throw std::bad_alloc();
    refuse_jpeg(name, fmt::format("it is {}x{} pixels large, for which there is no memory",
                                  session.info.image_width, session.info.image_height));
  }
  refuse_jpeg(name, session.reason.data());
}

void read_jpeg_header(JpegSession& session, std::span<const std::uint8_t> bytes,
                      const std::string& name) {
  session.info.err = jpeg_std_error(&session.errors);
  session.info.client_data = &session;
  session.errors.error_exit = on_error;
  session.errors.emit_message = on_message;
  session.errors.output_message = on_output;
  const bool good = guarded(session, [&] {
    constexpr unsigned longest_marker = 0xffff;
    jpeg_create_decompress(&session.info);
    jpeg_mem_src(&session.info, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&session.info, JPEG_APP0 + 1, longest_marker);
    static_cast<void>(jpeg_read_header(&session.info, TRUE));  // TRUE: errors leave by on_error
  });
  if (!good) refuse_jpeg(name, session);
  // Each 8x8 block costs at least one bit in the usual codings; subsampling and slack included.
  constexpr std::uint64_t most_pixels_per_byte = 1024;
  if (pixels_of(session) / most_pixels_per_byte > bytes.size()) {
    refuse_jpeg(name, fmt::format("its header announces {}x{} pixels, too many for {}",
                                  session.info.image_width, session.info.image_height,
                                  format_bytes(bytes.size())));
  }
}

}  // namespace tandem
