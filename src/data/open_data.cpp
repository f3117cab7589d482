#include <utility>

#include "base/error.h"
#include "data/data_config.h"
#include "data/datasets/cifar_dataset.h"
#include "data/datasets/folder_dataset.h"
#include "data/datasets/idx_dataset.h"
#include "data/datasets/synthetic_dataset.h"
#include "data/verify.h"

namespace tandem {
namespace {

std::unique_ptr<Dataset> open_train(const DataConfig& config) {
  switch (config.kind) {
    case DataKind::idx:
      return std::make_unique<IdxDataset>(config.train_images, config.train_labels, config.classes);
    case DataKind::cifar10:
    case DataKind::cifar100: {
      const CifarKind kind =
          config.kind == DataKind::cifar10 ? CifarKind::cifar10 : CifarKind::cifar100;
      return std::make_unique<CifarDataset>(cifar_files(config.train_path, kind, true), kind);
    }
    case DataKind::folder:
      return std::make_unique<FolderDataset>(config.train_path, config.transform.channels);
    case DataKind::synthetic:
      return std::make_unique<SyntheticDataset>(
          SyntheticDataset::Options{config.train_size, config.classes, config.height, config.width,
                                    config.transform.channels, config.seed, 0});
  }
  throw Error("unknown kind of data");
}

/// `classes` are the training set's, which a folder's labels follow.
std::unique_ptr<Dataset> open_test(const DataConfig& config,
                                   const std::vector<std::string>& classes) {
  switch (config.kind) {
    case DataKind::idx:
      return std::make_unique<IdxDataset>(config.test_images, config.test_labels, config.classes);
    case DataKind::cifar10:
    case DataKind::cifar100: {
      const CifarKind kind =
          config.kind == DataKind::cifar10 ? CifarKind::cifar10 : CifarKind::cifar100;
      return std::make_unique<CifarDataset>(cifar_files(config.test_path, kind, false), kind);
    }
    case DataKind::folder:
      return std::make_unique<FolderDataset>(config.test_path, config.transform.channels, classes);
    case DataKind::synthetic:
      return std::make_unique<SyntheticDataset>(
          SyntheticDataset::Options{config.test_size, config.classes, config.height, config.width,
                                    config.transform.channels, config.seed, config.train_size});
  }
  throw Error("unknown kind of data");
}

}  // namespace

Datasets open_datasets(const DataConfig& config) {
  Datasets sets;
  sets.train = open_train(config);
  sets.test = open_test(config, sets.train->class_names());
  return sets;
}

DataToVerify open_to_verify(const DataConfig& config) {
  if (config.kind != DataKind::folder) return {.sets = open_datasets(config), .empty_classes = {}};
  const int channels = config.transform.channels;
  auto train = std::make_unique<FolderDataset>(config.train_path, channels,
                                               std::vector<std::string>(), EmptyClasses::listed);
  auto test = std::make_unique<FolderDataset>(config.test_path, channels, train->class_names(),
                                              EmptyClasses::listed);
  std::vector<std::string> empty = train->empty_classes();
  empty.insert(empty.end(), test->empty_classes().begin(), test->empty_classes().end());
  return {.sets = {.train = std::move(train), .test = std::move(test)}, .empty_classes = empty};
}

std::unique_ptr<Dataset> open_test_dataset(const DataConfig& config) {
  std::vector<std::string> classes;
  if (config.kind == DataKind::folder) classes = open_train(config)->class_names();
  return open_test(config, classes);
}

Transform make_transform(const DataConfig& config, bool train) {
  TransformOptions options = config.transform;
  options.train = train;
  return Transform(options);
}

}  // namespace tandem
