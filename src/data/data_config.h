#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/config_table.h"
#include "data/augment/mix.h"
#include "data/augment/transform.h"
#include "data/datasets/dataset.h"

namespace tandem {

enum class DataKind { idx, cifar10, cifar100, folder, synthetic };

/// The [data] table of a run file. Keys, with their defaults:
///
/// | key | for | meaning |
/// | --- | --- | --- |
/// | kind | all | "idx", "cifar10", "cifar100", "folder" or "synthetic"; required |
/// | train_images, train_labels, test_images, test_labels | idx | files, plain or gzip; required |
/// | classes | idx, synthetic | number of classes, default 10 |
/// | path | cifar10, cifar100 | folder of the binary version's .bin files; required |
/// | path | folder | has train/ and one of validation/, val/, test/, each with a folder per class |
/// | train_path, test_path | folder | in place of path |
/// | train_size, test_size | synthetic | samples; required |
/// | height, width | synthetic | pixels, default 32 |
/// | seed | synthetic | of the images, default 0 |
/// | size | all | the model's input is size x size; default: the data set's own (idx, cifar*,
///   synthetic, where its images are square); required for folder |
/// | channels | all | of the model's input: 1 or 3, default the data set's (folder, synthetic: 3) |
/// | mean, std | all | one number, or one a channel, for pixels in 0..1; default 0.5 each, which
/// maps
///   to -1..1 |
/// | resize | all | shorter side before cropping, >= size; default: size, and nothing for images
///   that are size x size |
/// | on_bad_sample | all | "fail" (default), or "skip": an image that cannot be read is replaced in
///   training by another one, left out of evaluations, counted and listed |
/// | workers | all | decoding threads of each rank, default 1 |
/// | prefetch | all | batches decoded ahead, default 4 |
/// | timeout_seconds | all | how long reading may stand still before it ends the run, default 20;
///   0: for ever |
///
/// [data.augment], for training only, all off by default:
///
/// | key | meaning |
/// | --- | --- |
/// | crop_padding | random crop after padding by so many black pixels a side; 0 crops without |
/// | flip | mirrored left-right, half of the time |
/// | randaugment_ops | operations of RandAugment for each image, default 0: none; usual 2 |
/// | randaugment_magnitude | 0 to 30, default 9; needs randaugment_ops |
/// | random_erasing | probability that a box of 2 % to 33 % of the area becomes the mean colour |
/// | random_resized_crop | a box of random area and ratio, resized to size; not with crop_padding |
/// | scale, ratio | its ranges, two numbers each, default [0.08, 1.0] and [0.75, 1.3333] |
/// | mixup, cutmix | alpha of the Beta distribution, 0 to 1e6; see MixOptions |
///
/// Paths are relative to the current directory; a leading ~ is $HOME.
struct DataConfig {
  DataKind kind = DataKind::synthetic;
  // idx
  std::filesystem::path train_images;
  std::filesystem::path train_labels;
  std::filesystem::path test_images;
  std::filesystem::path test_labels;
  // cifar*: both the folder with the files; folder: the two folders
  std::filesystem::path train_path;
  std::filesystem::path test_path;
  // synthetic
  std::int64_t train_size = 0;
  std::int64_t test_size = 0;
  int height = 0;
  int width = 0;
  std::uint64_t seed = 0;

  int classes = 0;  ///< idx and synthetic; else the data set tells
  bool skip_bad_samples = false;
  int workers = 1;
  int prefetch = 4;
  double timeout_seconds = 20.0;
  /// With the augmentations of single samples in it; make_transform() sets `train`.
  TransformOptions transform;
  MixOptions mix;
};

/// As `data.kind` spells it.
std::string_view name_of(DataKind kind);

/// Reads and checks the table; files must exist. Keys that its kind does not know are left to
/// ConfigTable::finish(). Throws InputError naming file, line and key.
DataConfig read_data_config(const ConfigTable& data);

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

/// Opens both sets. Throws InputError for broken files.
Datasets open_datasets(const DataConfig& config);

/// Opens the test set alone, for evaluation (folder: the training folder still gives the classes).
std::unique_ptr<Dataset> open_test_dataset(const DataConfig& config);

/// The pipeline for training (with augmentations) or evaluation.
Transform make_transform(const DataConfig& config, bool train);

}  // namespace tandem
