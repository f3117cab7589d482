#include "layers/convolution/conv2d_cropped.h"

#include <algorithm>
#include <utility>

#include "device/arena.h"
#include "layers/streaming_store.h"

namespace tandem {
namespace {

/// Whether the window's row (or column) `position` ever stands on one of `input`'s.
bool meets(const Window& window, std::int64_t position, std::int64_t input, std::int64_t output) {
  for (std::int64_t i = 0; i < output; ++i) {
    const std::int64_t place = window.place(i, position);
    if (place >= 0 && place < input) return true;
  }
  return false;
}

/// Past the caches where that is possible: a gradient is next read after others.
void stream_zeros(float* place, std::int64_t count) {
  const auto misplaced =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(place) % 16 / sizeof(float));
  std::int64_t i = std::min(count, misplaced == 0 ? 0 : 4 - misplaced);
  std::fill_n(place, i, 0.0F);
  for (; i + 4 <= count; i += 4) stream_store(place + i, Four{});
  std::fill_n(place + i, count - i, 0.0F);
}

}  // namespace

std::optional<WindowCrop> crop_window(const Window& window, const Shape& input,
                                      const Shape& output) {
  const auto needed = [&](std::int64_t position) {
    return meets(window, position, input[1], output[1]) ||
           meets(window, position, input[2], output[2]);
  };
  std::int64_t first = 0;
  while (first < window.kernel && !needed(first)) ++first;
  std::int64_t last = window.kernel - 1;
  while (last > first && !needed(last)) --last;
  if (first > last || last - first + 1 == window.kernel) return std::nullopt;
  WindowCrop crop{.first = first, .window = window};
  crop.window.kernel = last - first + 1;
  crop.window.padding -= first * window.dilation;
  const bool same = crop.window.padding >= 0 && crop.window.output_extent(input[1]) == output[1] &&
                    crop.window.output_extent(input[2]) == output[2];
  return same ? std::optional(crop) : std::nullopt;
}

CroppedConvolution::CroppedConvolution(CpuContext& context, const Conv2dOptions& options,
                                       const WindowCrop& crop, std::int64_t inputs,
                                       std::unique_ptr<CpuConvolution> cropped)
    : context_(&context),
      outputs_(options.out_channels),
      kernel_(options.window.kernel),
      first_(crop.first),
      kept_kernel_(crop.window.kernel),
      inputs_(inputs),
      bytes_(
          Arena::align(static_cast<std::size_t>(outputs_ * kept_kernel_ * kept_kernel_ * inputs_) *
                       sizeof(float))),
      cropped_(std::move(cropped)) {}

std::size_t CroppedConvolution::forward_scratch() const {
  return bytes_ + cropped_->forward_scratch();
}

std::size_t CroppedConvolution::backward_scratch() const {
  return bytes_ + cropped_->backward_scratch();
}

void CroppedConvolution::forward(const float* input, const float* weight, const float* bias,
                                 float* output, std::byte* scratch) {
  cropped_->forward(input, crop(weight, scratch), bias, output, scratch + bytes_);
}

void CroppedConvolution::backward_weights(const float* input, const float* output_gradient,
                                          float* weight_gradient, float* bias_gradient,
                                          std::byte* scratch) {
  auto* kept = reinterpret_cast<float*>(scratch);
  cropped_->backward_weights(input, output_gradient, kept, bias_gradient, scratch + bytes_);
  surround(kept, weight_gradient);
}

void CroppedConvolution::backward_data(const float* output_gradient, const float* weight,
                                       float* input_gradient, std::byte* scratch) {
  cropped_->backward_data(output_gradient, crop(weight, scratch), input_gradient, scratch + bytes_);
}

const float* CroppedConvolution::crop(const float* weight, std::byte* scratch) const {
  auto* kept = reinterpret_cast<float*>(scratch);
  const std::int64_t run = kept_kernel_ * inputs_;
#pragma omp parallel for collapse(2) num_threads(context_->threads()) schedule(static)
  for (std::int64_t k = 0; k < outputs_; ++k) {
    for (std::int64_t row = 0; row < kept_kernel_; ++row) {
      const std::int64_t from = ((k * kernel_ + first_ + row) * kernel_ + first_) * inputs_;
      std::copy_n(weight + from, run, kept + (k * kept_kernel_ + row) * run);
    }
  }
  return kept;
}

void CroppedConvolution::surround(const float* kept, float* weight) const {
  const std::int64_t run = kept_kernel_ * inputs_;
  const std::int64_t before = (first_ * kernel_ + first_) * inputs_;
  const std::int64_t between = (kernel_ - kept_kernel_) * inputs_;
  const std::int64_t all = kernel_ * kernel_ * inputs_;
  const std::int64_t after = all - before - kept_kernel_ * run - (kept_kernel_ - 1) * between;
#pragma omp parallel num_threads(context_->threads())
  {
#pragma omp for schedule(static) nowait
    for (std::int64_t k = 0; k < outputs_; ++k) {
      float* place = weight + k * all;
      stream_zeros(place, before);
      place += before;
      for (std::int64_t row = 0; row < kept_kernel_; ++row) {
        if (row > 0) {
          stream_zeros(place, between);
          place += between;
        }
        std::copy_n(kept + (k * kept_kernel_ + row) * run, run, place);
        place += run;
      }
      stream_zeros(place, after);
    }
    streamed();
  }
}

}  // namespace tandem
