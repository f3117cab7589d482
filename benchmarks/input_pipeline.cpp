// JPEG files to training samples on one thread: the decode of a random box alone, and the whole way
// from bytes to normalised floats. benchmarks/input_pipeline.py runs it beside torchvision.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/augment/augment.h"
#include "data/augment/transform.h"
#include "data/input_file.h"
#include "data/jpeg/jpeg_decoder.h"
#include "data/raw_batch.h"

namespace tandem {
namespace {

constexpr int size = 224;

/// The files under the folder TANDEM_IMAGES, in memory, by name.
const std::vector<std::vector<std::uint8_t>>& files() {
  static const auto all = [] {
    const char* folder = std::getenv("TANDEM_IMAGES");
    TANDEM_CHECK(folder != nullptr, "TANDEM_IMAGES names no folder of JPEG files");
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    std::vector<std::vector<std::uint8_t>> bytes;
    bytes.reserve(paths.size());
    for (const auto& path : paths) bytes.push_back(read_whole_file(path));
    return bytes;
  }();
  return all;
}

/// Runs `sample(bytes, stream)` over all files with new random numbers in each round.
template <typename Sample>
void run(benchmark::State& state, Sample&& sample) {
  std::int64_t round = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < files().size(); ++i) {
      RandomStream random = augmentation_stream(1, round, static_cast<std::int64_t>(i));
      sample(files()[i], random);
    }
    ++round;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(files().size()));
}

void whole_decode(benchmark::State& state) {
  run(state, [](const auto& bytes, RandomStream&) {
    JpegImage image(bytes, 3, "benchmark");
    benchmark::DoNotOptimize(image.read_all().pixels);
  });
}

void partial_decode(benchmark::State& state) {
  run(state, [](const auto& bytes, RandomStream& random) {
    JpegImage image(bytes, 3, "benchmark");
    const PixelRect box = random_resized_crop(image.height(), image.width(), {}, random);
    benchmark::DoNotOptimize(image.read(box, size, size).view.pixels);
  });
}

TransformOptions cropped_and_mirrored() {
  TransformOptions options;
  options.size = size;
  options.train = options.random_resized_crop = options.flip = true;
  return options;
}

void training_sample(benchmark::State& state) {
  const Transform transform(cropped_and_mirrored());
  const auto memory =  // as the loader's
      allocate_host(static_cast<std::size_t>(transform.output_elements()) * sizeof(float));
  auto* out = reinterpret_cast<float*>(memory.get());
  run(state, [&](const auto& bytes, RandomStream& random) {
    JpegImage image(bytes, 3, "benchmark");
    transform.apply(image, random, out);
    benchmark::DoNotOptimize(out);
  });
}

/// What a rank with a GPU does: bytes, which the GPU mirrors and normalises.
void raw(benchmark::State& state, const TransformOptions& options) {
  const Transform transform(options);
  const PixelFormat format = transform.pixel_format({});
  const auto memory = allocate_host(static_cast<std::size_t>(format.bytes()));
  auto* out = reinterpret_cast<std::uint8_t*>(memory.get());
  run(state, [&](const auto& bytes, RandomStream& random) {
    JpegImage image(bytes, 3, "benchmark");
    benchmark::DoNotOptimize(transform.plan(image, random, format, out));
  });
}

void raw_sample(benchmark::State& state) { raw(state, cropped_and_mirrored()); }

void augmented_raw_sample(benchmark::State& state) {
  TransformOptions options = cropped_and_mirrored();
  options.rand_augment.ops = 2;
  raw(state, options);
}

/// The middle of the image, whose shorter side becomes 256.
void evaluated_raw_sample(benchmark::State& state) {
  TransformOptions options;
  options.size = size;
  options.resize = 256;
  raw(state, options);
}

BENCHMARK(whole_decode)->Unit(benchmark::kMillisecond);
BENCHMARK(partial_decode)->Unit(benchmark::kMillisecond);
BENCHMARK(training_sample)->Unit(benchmark::kMillisecond);
BENCHMARK(raw_sample)->Unit(benchmark::kMillisecond);
BENCHMARK(augmented_raw_sample)->Unit(benchmark::kMillisecond);
BENCHMARK(evaluated_raw_sample)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem
