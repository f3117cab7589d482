#include "data/batch_buffer.h"

#include <algorithm>

namespace tandem {
namespace {

/// The partner's position; the first sample's is behind the last.
std::size_t partner_of(std::size_t at, std::size_t batch) { return at > 0 ? at - 1 : batch; }

/// The labels of a batch that is mixed. `labels` has a position more than the others.
void mix_labels(const Mix& mix, std::span<const std::int32_t> labels,
                std::span<std::int32_t> second_labels, std::span<float> weights) {
  for (std::size_t at = 0; at < second_labels.size(); ++at) {
    second_labels[at] = labels[partner_of(at, second_labels.size())];
  }
  std::fill(weights.begin(), weights.end(), static_cast<float>(mix.weight));
}

class FloatBuffer final : public BatchBuffer {
 public:
  FloatBuffer(const Transform& transform, const BatchBufferOptions& options)
      : transform_(transform),
        batch_(static_cast<std::size_t>(options.batch)),
        elements_(static_cast<std::size_t>(transform.output_elements())) {
    const std::size_t positions = batch_ + (options.mixed ? 1 : 0);
    memory_ = allocate_host(positions * elements_ * sizeof(float));
    labels_.resize(positions);
    if (!options.mixed) return;
    second_labels_.resize(batch_);
    label_weights_.resize(batch_);
  }

  void load(std::size_t at, std::int32_t label, ImageSource& source,
            RandomStream& random) override {
    labels_[at] = label;
    transform_.apply(source, random, image(at));
  }

  void copy(std::size_t from, std::size_t to) override {
    std::copy_n(image(from), elements_, image(to));
    labels_[to] = labels_[from];
  }

  void clear(std::size_t begin, std::size_t end) override {
    std::fill(image(begin), image(end), 0.0F);
    std::fill_n(labels_.begin() + static_cast<std::ptrdiff_t>(begin), end - begin, 0);
  }

  void mix(const Mix& mix) override {
    // From the last one on, so that each partner is still as it was loaded.
    for (std::size_t at = batch_; at-- > 0;) {
      mix_into(mix, transform_.options().size, transform_.options().channels,
               image(partner_of(at, batch_)), image(at));
    }
    mix_labels(mix, labels_, second_labels_, label_weights_);
  }

  void show_in(Batch& batch) override {
    const auto count = static_cast<std::int64_t>(batch_);
    const TransformOptions& output = transform_.options();
    batch.images = Tensor(memory_.get(), {count, output.size, output.size, output.channels});
    batch.labels = Tensor(labels_.data(), {count}, DType::i32);
    if (second_labels_.empty()) return;
    batch.second_labels = Tensor(second_labels_.data(), {count}, DType::i32);
    batch.label_weights = Tensor(label_weights_.data(), {count});
  }

 private:
  float* image(std::size_t at) { return reinterpret_cast<float*>(memory_.get()) + at * elements_; }

  const Transform& transform_;
  std::size_t batch_;
  std::size_t elements_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> second_labels_;
  std::vector<float> label_weights_;
};

class RawBuffer final : public BatchBuffer {
 public:
  RawBuffer(const Transform& transform, const PixelFormat& format,
            const BatchBufferOptions& options, const HostAllocator& allocate)
      : transform_(transform),
        layout_(format, options.batch, options.mixed),
        sample_bytes_(static_cast<std::size_t>(format.bytes())),
        memory_(allocate(layout_.bytes())),
        view_(layout_.view(memory_.get())) {
    // The gaps between the parts travel to the device with them.
    std::fill_n(memory_.get(), layout_.bytes(), std::byte{0});
  }

  void load(std::size_t at, std::int32_t label, ImageSource& source,
            RandomStream& random) override {
    labels()[at] = label;
    view_.edits[at] = transform_.plan(source, random, layout_.format(), pixels(at));
  }

  void copy(std::size_t from, std::size_t to) override {
    std::copy_n(pixels(from), sample_bytes_, pixels(to));
    view_.edits[to] = view_.edits[from];
    labels()[to] = labels()[from];
  }

  void clear(std::size_t begin, std::size_t end) override {
    const int size = transform_.options().size;
    std::fill(pixels(begin), pixels(end), std::uint8_t{0});
    std::fill(view_.edits + begin, view_.edits + end, SampleEdit{.erased = {0, 0, size, size}});
    std::fill(labels().begin() + static_cast<std::ptrdiff_t>(begin),
              labels().begin() + static_cast<std::ptrdiff_t>(end), 0);
  }

  void mix(const Mix& mix) override {
    *view_.mix = {.own = static_cast<float>(mix.weight),
                  .partners = static_cast<float>(1.0 - mix.weight),
                  .boxed = mix.box ? 1 : 0,
                  .box = mix.box.value_or(PixelRect{})};
    mix_labels(mix, labels(), view_.second_labels.span<std::int32_t>(),
               view_.label_weights.span<float>());
  }

  void show_in(Batch& batch) override {
    batch.raw = view_;
    batch.labels = view_.labels;
    batch.second_labels = view_.second_labels;
    batch.label_weights = view_.label_weights;
  }

 private:
  std::uint8_t* pixels(std::size_t at) {
    return view_.pixels.data<std::uint8_t>() + at * sample_bytes_;
  }
  std::span<std::int32_t> labels() {
    return {view_.labels.data<std::int32_t>(), static_cast<std::size_t>(layout_.positions())};
  }

  const Transform& transform_;
  RawBatchLayout layout_;
  std::size_t sample_bytes_;
  std::shared_ptr<std::byte> memory_;
  RawBatchView view_;
};

}  // namespace

std::unique_ptr<BatchBuffer> make_float_buffer(const Transform& transform,
                                               const BatchBufferOptions& options) {
  return std::make_unique<FloatBuffer>(transform, options);
}

std::unique_ptr<BatchBuffer> make_raw_buffer(const Transform& transform, const PixelFormat& format,
                                             const BatchBufferOptions& options,
                                             const HostAllocator& allocate) {
  return std::make_unique<RawBuffer>(transform, format, options, allocate);
}

}  // namespace tandem
