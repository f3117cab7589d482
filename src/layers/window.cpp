#include "layers/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {

std::string Window::text() const {
  return fmt::format("{} stride {} padding {} dilation {}", kernel, stride, padding, dilation);
}

void require_image(const Shape& input) {
  if (input.rank() != 4 || std::ranges::any_of(input.extents(), [](auto e) { return e < 1; })) {
    input_error("needs an image input (N x H x W x C), not {}", input.text());
  }
}

Shape windowed_shape(const Window& window, const Shape& input, std::int64_t channels) {
  require_image(input);
  const std::int64_t rows = window.output_extent(input[1]);
  const std::int64_t columns = window.output_extent(input[2]);
  if (rows < 1 || columns < 1) {
    input_error(
        "a {0}x{0} window (stride {1}, padding {2}, dilation {3}) does not fit an input of {4}x{5} "
        "pixels; use a larger input or fewer strides",
        window.kernel, window.stride, window.padding, window.dilation, input[1], input[2]);
  }
  return {input[0], rows, columns, channels};
}

bool stands_on_padding(const Window& window, const Shape& input, const Shape& output) {
  const auto meets = [&](std::int64_t out, std::int64_t extent) {
    for (std::int64_t i = 0; i < window.kernel; ++i) {
      const std::int64_t place = window.place(out, i);
      if (place >= 0 && place < extent) return true;
    }
    return false;
  };
  for (std::size_t axis = 1; axis <= 2; ++axis) {
    for (std::int64_t out = 0; out < output[axis]; ++out) {
      if (!meets(out, input[axis])) return true;
    }
  }
  return false;
}

}  // namespace tandem
