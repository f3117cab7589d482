#include "data/data_config.h"

#include <array>

#include "base/error.h"
#include "data/datasets/cifar_dataset.h"
#include "data/datasets/idx_dataset.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int largest_side = 65535;
const std::array<std::string, 5>& kind_names() {
  static const std::array<std::string, 5> names{"idx", "cifar10", "cifar100", "folder",
                                                "synthetic"};
  return names;
}

int get_small(const ConfigTable& table, std::string_view key, int fallback, int low, int high) {
  return static_cast<int>(table.get_int_or(key, fallback, low, high));
}

/// That `path`, which `key` led to, is no `kind`: by what `code` says where it could not be looked
/// at.
[[noreturn]] void fail_missing(const ConfigTable& table, std::string_view key, const fs::path& path,
                               std::string_view kind, const std::error_code& code) {
  const bool was_seen =
      !code || code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory;
  const std::string what = was_seen ? fmt::format("no such {}", kind) : code.message();
  std::error_code ignored;
  const std::string from =
      path.is_relative() ? fmt::format(" (looked in {})", fs::current_path(ignored).string()) : "";
  table.fail(key, fmt::format("{}: {}{}; name another, as by --set data.{}=PATH", path.string(),
                              what, from, key));
}

/// `path`, which `key` led to, must be a file or a folder.
void require_file(const ConfigTable& table, std::string_view key, const fs::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) {
    table.fail(key, fmt::format("{}: a folder; give the path of a file", path.string()));
  }
  if (!fs::is_regular_file(path, code)) fail_missing(table, key, path, "file", code);
}

void require_folder(const ConfigTable& table, std::string_view key, const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) fail_missing(table, key, path, "folder", code);
}

fs::path get_file(const ConfigTable& table, std::string_view key) {
  fs::path path = table.get_path(key);
  require_file(table, key, path);
  return path;
}

fs::path get_folder(const ConfigTable& table, std::string_view key) {
  fs::path path = table.get_path(key);
  require_folder(table, key, path);
  return path;
}

/// What the data set's images are like; zeros where only loading one would tell.
struct Native {
  int height = 0;
  int width = 0;
  int channels = 3;
};

Native read_idx(const ConfigTable& table, DataConfig& config) {
  config.train_images = get_file(table, "train_images");
  config.train_labels = get_file(table, "train_labels");
  config.test_images = get_file(table, "test_images");
  config.test_labels = get_file(table, "test_labels");
  config.classes = get_small(table, "classes", 10, 1, 256);
  const IdxImageShape shape = read_idx_image_shape(config.train_images);
  return {shape.height, shape.width, shape.channels};
}

Native read_cifar(const ConfigTable& table, DataConfig& config) {
  config.train_path = config.test_path = get_folder(table, "path");
  const CifarKind kind =
      config.kind == DataKind::cifar10 ? CifarKind::cifar10 : CifarKind::cifar100;
  for (const bool train : {true, false}) {
    for (const fs::path& file : cifar_files(config.train_path, kind, train)) {
      require_file(table, "path", file);
    }
  }
  return {32, 32, 3};
}

Native read_folder(const ConfigTable& table, DataConfig& config) {
  constexpr Native native;
  if (table.has("train_path") || table.has("test_path")) {
    config.train_path = get_folder(table, "train_path");
    config.test_path = get_folder(table, "test_path");
    if (table.has("path")) table.fail("path", "give either path or train_path and test_path");
    return native;
  }
  const fs::path root = get_folder(table, "path");
  config.train_path = root / "train";
  require_folder(table, "path", config.train_path);
  for (const char* name : {"validation", "val", "test"}) {
    std::error_code code;
    if (!fs::is_directory(root / name, code)) continue;
    config.test_path = root / name;
    return native;
  }
  table.fail("path", fmt::format("{}: has none of validation/, val/, test/", root.string()));
}

Native read_synthetic(const ConfigTable& table, DataConfig& config) {
  // More would take minutes and gigabytes to deal before the first step.
  constexpr std::int64_t most = 100'000'000;
  config.train_size = table.get_int("train_size", 1, most);
  config.test_size = table.get_int("test_size", 1, most);
  config.classes = get_small(table, "classes", 10, 1, 1'000'000);
  config.height = get_small(table, "height", 32, 1, largest_side);
  config.width = get_small(table, "width", 32, 1, largest_side);
  config.seed = static_cast<std::uint64_t>(table.get_int_or("seed", 0, 0, INT64_MAX));
  return {config.height, config.width, 3};
}

Native read_kind(const ConfigTable& table, DataConfig& config) {
  const std::string name = table.get_choice("kind", kind_names());
  for (std::size_t i = 0; i < kind_names().size(); ++i) {
    if (kind_names()[i] == name) config.kind = static_cast<DataKind>(i);
  }
  switch (config.kind) {
    case DataKind::idx:
      return read_idx(table, config);
    case DataKind::cifar10:
    case DataKind::cifar100:
      return read_cifar(table, config);
    case DataKind::folder:
      return read_folder(table, config);
    case DataKind::synthetic:
      return read_synthetic(table, config);
  }
  throw Error("unknown kind of data");
}

/// One number a channel, from one number or as many as there are channels.
std::vector<float> get_per_channel(const ConfigTable& table, std::string_view key, int channels,
                                   double low, double high) {
  constexpr std::array fallback{0.5};
  const std::vector<double> values = table.get_reals_or(key, fallback);
  const auto count = static_cast<std::size_t>(channels);
  if (values.size() != 1 && values.size() != count) {
    table.fail(key, fmt::format("{} numbers for {} channels; give one, or one a channel",
                                values.size(), channels));
  }
  std::vector<float> result;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[values.size() == 1 ? 0 : i];
    if (!(value >= low && value <= high)) {
      table.fail(key, fmt::format("{} is out of range; expected {} to {} (pixels count as 0 to 1)",
                                  value, low, high));
    }
    result.push_back(static_cast<float>(value));
  }
  return result;
}

void read_range(const ConfigTable& table, std::string_view key, double most, double& low,
                double& high) {
  const std::array fallback{low, high};
  const std::vector<double> values = table.get_reals_or(key, fallback);
  if (values.size() != 2) table.fail(key, "expected two numbers, the least and the most");
  if (!(values[0] > 0.0 && values[0] <= values[1] && values[1] <= most)) {
    table.fail(key, fmt::format("[{}, {}] is no range; expected 0 < least <= most <= {}", values[0],
                                values[1], most));
  }
  low = values[0];
  high = values[1];
}

void read_rand_augment(const ConfigTable& table, RandAugmentOptions& options) {
  constexpr int most_ops = 16;
  options.ops = get_small(table, "randaugment_ops", 0, 0, most_ops);
  if (options.ops > 0) {
    options.magnitude =
        get_small(table, "randaugment_magnitude", options.magnitude, 0, augment_bins - 1);
  } else if (table.has("randaugment_magnitude")) {
    table.fail("randaugment_magnitude", "has no effect without randaugment_ops of 1 or more");
  }
}

void read_augment(const ConfigTable& table, TransformOptions& options) {
  options.flip = table.get_bool_or("flip", false);
  options.random_erasing = table.get_real_or("random_erasing", 0.0, 0.0, 1.0);
  read_rand_augment(table, options.rand_augment);
  options.crop_padding = get_small(table, "crop_padding", -1, 0, 4096);
  options.random_resized_crop = table.get_bool_or("random_resized_crop", false);
  constexpr double largest_ratio = 100.0;
  if (options.random_resized_crop) {
    read_range(table, "scale", 1.0, options.ranges.scale_low, options.ranges.scale_high);
    read_range(table, "ratio", largest_ratio, options.ranges.ratio_low, options.ranges.ratio_high);
    if (table.has("crop_padding")) {
      table.fail("crop_padding", "not together with random_resized_crop; remove one");
    }
    return;
  }
  for (const char* key : {"scale", "ratio"}) {
    if (table.has(key)) table.fail(key, "has no effect without random_resized_crop = true");
  }
}

MixOptions read_mix(const ConfigTable& table) {
  constexpr double largest_alpha = 1e6;
  return {.mixup = table.get_real_or("mixup", 0.0, 0.0, largest_alpha),
          .cutmix = table.get_real_or("cutmix", 0.0, 0.0, largest_alpha)};
}

}  // namespace

std::string_view name_of(DataKind kind) { return kind_names().at(static_cast<std::size_t>(kind)); }

DataConfig read_data_config(const ConfigTable& data) {
  DataConfig config;
  const Native native = read_kind(data, config);
  TransformOptions& transform = config.transform;
  if (native.height > 0 && native.height == native.width) {
    transform.size = get_small(data, "size", native.height, 1, largest_side);
  } else {
    if (native.height > 0) {
      data.require(
          "size",
          fmt::format("an integer, the side of the square that images of {} x {} pixels become",
                      native.width, native.height));
    }
    transform.size = static_cast<int>(data.get_int("size", 1, largest_side));
  }
  transform.channels = get_small(data, "channels", native.channels, 1, 3);
  if (transform.channels == 2) data.fail("channels", "2 is not possible; 1 (gray) or 3 (RGB)");
  constexpr double least_deviation = 1e-6;
  transform.mean = get_per_channel(data, "mean", transform.channels, 0.0, 1.0);
  transform.deviation = get_per_channel(data, "std", transform.channels, least_deviation, 100.0);
  transform.resize = get_small(data, "resize", 0, transform.size, largest_side);
  const ConfigTable augment = data.table("augment");
  read_augment(augment, transform);
  config.mix = read_mix(augment);
  const std::array<std::string, 2> policies{"fail", "skip"};
  config.skip_bad_samples = data.get_choice_or("on_bad_sample", "fail", policies) == "skip";
  constexpr int most_workers = 1024;
  config.workers = get_small(data, "workers", 1, 1, most_workers);
  config.prefetch = get_small(data, "prefetch", 4, 1, most_workers);
  config.timeout_seconds = data.get_real_or("timeout_seconds", 20.0, 0.0, 1e6);
  return config;
}

}  // namespace tandem
