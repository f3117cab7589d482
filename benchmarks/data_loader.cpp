// What a loader's workers make a second of data sets that need no decoding, with a padded crop and
// a flip: raw batches, whose bytes a GPU finishes, and batches of floats, for a CPU.
#include "data/data_loader.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/datasets/cifar_dataset.h"
#include "data/datasets/idx_dataset.h"
#include "data/datasets/synthetic_dataset.h"

namespace tandem {
namespace {

constexpr int batch = 256;
constexpr int samples = 50'000;  // of CIFAR's, more than a core's cache holds

/// A folder for the files of one data set, gone once that has read them into memory.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("tandem-data-loader-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    stream << bytes << std::flush;
    TANDEM_CHECK(stream.good(), "{}: writing failed", (path_ / name).string());
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<Dataset> cifar() {
  constexpr std::size_t record = 1 + 3 * 32 * 32;
  const Folder folder;
  const auto file = folder.write("data.bin", std::string(record * samples, '\1'));
  return std::make_unique<CifarDataset>(std::vector{file}, CifarKind::cifar10);
}

std::unique_ptr<Dataset> fashion_mnist() {
  using namespace std::string_literals;
  const std::string count{'\0', '\0', static_cast<char>(samples >> 8),
                          static_cast<char>(samples & 255)};
  const Folder folder;
  const auto images = folder.write("images", "\0\0\10\3"s + count + "\0\0\0\34\0\0\0\34"s +
                                                 std::string(std::size_t{28} * 28 * samples, '\1'));
  const auto labels = folder.write("labels", "\0\0\10\1"s + count + std::string(samples, '\1'));
  return std::make_unique<IdxDataset>(images, labels, 10);
}

std::unique_ptr<Dataset> synthetic(int side) {
  return std::make_unique<SyntheticDataset>(SyntheticDataset::Options{
      .size = samples, .classes = side > 64 ? 1000 : 10, .height = side, .width = side});
}

void run(benchmark::State& state, std::unique_ptr<Dataset> data, bool raw) {
  TransformOptions options;
  options.channels = data->channels();
  options.size = data->extents()->height;
  options.mean.assign(static_cast<std::size_t>(options.channels), 0.5F);
  options.deviation = options.mean;
  options.train = options.flip = true;
  options.crop_padding = options.size / 8;
  const Transform transform(options);
  DataLoader loader(*data, transform,
                    training_batches(DistributedSampler({.size = samples, .global_batch = batch})),
                    {.batch = batch, .workers = static_cast<int>(state.range(0)), .raw = raw});
  // What was made ahead by then would count as made in no time.
  for (int ahead = 0; ahead < 8; ++ahead) loader.next();
  for (auto _ : state) benchmark::DoNotOptimize(loader.next());
  state.SetItemsProcessed(state.iterations() * batch);
}

void add(const std::string& name, std::unique_ptr<Dataset> (*open)()) {
  for (const bool raw : {true, false}) {
    benchmark::RegisterBenchmark((name + (raw ? "/raw" : "/floats")).c_str(),
                                 [=](benchmark::State& state) { run(state, open(), raw); })
        ->Arg(1)
        ->Arg(2)
        ->ArgName("workers")
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tandem::add("cifar", tandem::cifar);
  tandem::add("fashion_mnist", tandem::fashion_mnist);
  tandem::add("synthetic_32", [] { return tandem::synthetic(32); });
  tandem::add("synthetic_224", [] { return tandem::synthetic(224); });
  benchmark::RunSpecifiedBenchmarks();
}
