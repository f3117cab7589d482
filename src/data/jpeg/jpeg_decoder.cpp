#include "data/jpeg/jpeg_decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/jpeg/cmyk.h"
#include "data/jpeg/exif.h"
#include "data/jpeg/jpeg_session.h"
#include "data/jpeg/orientation.h"

namespace tandem {
namespace {

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
       marker = marker->next) {
    const int orientation = exif_orientation({marker->data, marker->data_length});
    if (orientation != 1) return orientation;
  }
  return 1;
}

/// Whether the end marker follows what has been read. Within coded data a byte 0xff is followed by
/// a zero or by another marker, so its two bytes mean nothing else there.
bool has_end_marker(const jpeg_source_mgr& rest) {
  for (std::size_t i = rest.bytes_in_buffer; i >= 2; --i) {
    if (rest.next_input_byte[i - 2] == 0xff && rest.next_input_byte[i - 1] == JPEG_EOI) return true;
  }
  return false;
}

/// By how much a box may be reduced and keep least_height x least_width pixels: 1, 2, 4 or 8.
int reduction_of(const PixelRect& box, int least_height, int least_width) {
  constexpr int most = 8;
  int reduction = 1;
  while (reduction < most && box.height >= 2 * reduction * least_height &&
         box.width >= 2 * reduction * least_width) {
    reduction *= 2;
  }
  return reduction;
}

/// The pixels of a reduced image that a box of the full one touches.
PixelRect reduced(const RealRect& box, int reduction) {
  const auto first = [&](double edge) { return static_cast<int>(std::floor(edge / reduction)); };
  const auto past = [&](double edge) { return static_cast<int>(std::ceil(edge / reduction)); };
  PixelRect window{first(box.top), first(box.left), 0, 0};
  window.height = past(box.top + box.height) - window.top;
  window.width = past(box.left + box.width) - window.left;
  return window;
}

/// Decoded pixels, in rows that are a little wider than what `view` shows of them.
struct Decoded {
  std::unique_ptr<std::uint8_t[]> memory;
  ImageView view;
};

/// Decodes `window` of the picture, whose colour space and scale are set in session.info.
Decoded read_window(JpegSession& session, const PixelRect& window, const std::string& name) {
  jpeg_decompress_struct& info = session.info;
  if (!guarded(session, [&] { static_cast<void>(jpeg_start_decompress(&info)); })) {
    refuse_jpeg(name, session);
  }
  // Chroma is interpolated from a neighbour on each side, two pixels away at most.
  constexpr int margin = 2;
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, window.left - margin));
  JDIMENSION width =
      std::min(info.output_width, static_cast<JDIMENSION>(window.left + window.width + margin)) -
      left;
  const auto top = static_cast<JDIMENSION>(window.top);
  const auto end = static_cast<JDIMENSION>(window.top + window.height);
  if (width < info.output_width || top > 0) {
    const bool good = guarded(session, [&] {
      if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
      if (top > 0) static_cast<void>(jpeg_skip_scanlines(&info, top));
    });
    if (!good) refuse_jpeg(name, session);
  }
  // libjpeg-turbo stores past the caches to rows that are aligned for its vectors, and what is read
  // right after would come from memory. With an even stride no row is.
  constexpr std::size_t unaligned = 1;
  const auto channels = static_cast<std::size_t>(info.output_components);
  const std::size_t stride = (std::size_t{info.output_width} * channels + 1) / 2 * 2;
  Decoded decoded{std::make_unique_for_overwrite<std::uint8_t[]>(
                      unaligned + stride * static_cast<std::size_t>(window.height)),
                  {}};
  std::uint8_t* const rows = decoded.memory.get() + unaligned;
  decoded.view = {rows + (static_cast<std::size_t>(window.left) - left) * channels,
                  static_cast<std::ptrdiff_t>(stride), window.height, window.width,
                  info.output_components};
  const bool good = guarded(session, [&] {
    for (JSAMPROW row = rows; info.output_scanline < end; row += stride) {
      static_cast<void>(jpeg_read_scanlines(&info, &row, 1));
    }
    if (end == info.output_height) static_cast<void>(jpeg_finish_decompress(&info));
  });
  if (!good) refuse_jpeg(name, session);
  return decoded;
}

}  // namespace

struct JpegImage::State {
  std::vector<std::uint8_t> bytes;
  int channels;
  std::string name;
  std::optional<JpegSession> session;  ///< behind the header
  int orientation = 1;
  int height = 0;  ///< stored
  int width = 0;
  Decoded pixels;
  Image turned;  ///< where they are not shown as they are stored

  void open();
};

void JpegImage::State::open() {
  session.emplace();
  read_jpeg_header(*session, bytes, name);
  jpeg_decompress_struct& info = session->info;
  orientation = orientation_of(info);
  height = static_cast<int>(info.image_height);
  width = static_cast<int>(info.image_width);
  const bool is_ink = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_ink ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

JpegImage::JpegImage(std::vector<std::uint8_t> bytes, int channels, std::string name)
    : state_(std::make_unique<State>()) {
  TANDEM_CHECK(channels == 1 || channels == 3, "a JPEG decodes to 1 or 3 channels, not {}",
               channels);
  state_->bytes = std::move(bytes);
  state_->channels = channels;
  state_->name = std::move(name);
  state_->open();
}

JpegImage::~JpegImage() = default;

int JpegImage::height() const { return state_->orientation >= 5 ? state_->width : state_->height; }

int JpegImage::width() const { return state_->orientation >= 5 ? state_->height : state_->width; }

ImagePart JpegImage::read(const PixelRect& box, int least_height, int least_width) {
  TANDEM_CHECK(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                   box.top + box.height <= height() && box.left + box.width <= width(),
               "no {}x{} at {},{} in {}x{} of {}", box.height, box.width, box.top, box.left,
               height(), width(), state_->name);
  if (!state_->session) state_->open();
  jpeg_decompress_struct& info = state_->session->info;
  if (!has_end_marker(*info.src)) refuse_jpeg(state_->name, "Premature end of JPEG file");
  const int reduction = reduction_of(box, least_height, least_width);
  const RealRect stored =
      upright_rect({static_cast<double>(box.top), static_cast<double>(box.left),
                    static_cast<double>(box.height), static_cast<double>(box.width)},
                   height(), width(), inverse_orientation(state_->orientation));
  const PixelRect window = reduced(stored, reduction);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduction);
  const bool is_ink = info.out_color_space == JCS_CMYK;
  const bool inverted = info.saw_Adobe_marker != FALSE;
  state_->pixels = read_window(*state_->session, window, state_->name);
  state_->session.reset();
  ImageView view = state_->pixels.view;
  if (is_ink || state_->orientation != 1) {
    Image stored_pixels = copy_of(view);
    if (is_ink) stored_pixels = from_cmyk(stored_pixels, inverted, state_->channels);
    state_->turned = upright(std::move(stored_pixels), state_->orientation);
    view = view_of(state_->turned);
  }
  const RealRect inside{stored.top / reduction - window.top, stored.left / reduction - window.left,
                        stored.height / reduction, stored.width / reduction};
  return {view, upright_rect(inside, window.height, window.width, state_->orientation)};
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, int channels, const std::string& name) {
  JpegImage image({bytes.begin(), bytes.end()}, channels, name);
  return copy_of(image.read_all());
}

}  // namespace tandem
