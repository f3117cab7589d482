#include "train/checkpoints/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "support/message.h"
#include "train/checkpoints/model_weights.h"
#include "train/checkpoints/safetensors.h"
#include "train/scratch.h"
#include "train/trained.h"

namespace tandem {
namespace {

using Checkpoint = ScratchTest;

constexpr const char* other_recipe =
    "train.freeze or the optimizer's settings are not the checkpoint's; resume with the same, or "
    "start a new run with train.init";

TEST_F(Checkpoint, ComesBackBitEqual) {
  Trained saved(11);
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), trained_position)
      .write(path("c"));
  Trained loaded(12);
  const TrainingPosition found = load_checkpoint(path("c"), loaded.replica.store(),
                                                 loaded.replica.optimizer(), trained_position);
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.epoch(), 1);
  EXPECT_EQ(found.step_in_epoch(), 2);
  EXPECT_EQ(found.batches, 28);
  EXPECT_EQ(found.best_top1, trained_position.best_top1);
  EXPECT_EQ(found.best_step, 4);
  EXPECT_EQ(found.evaluated_step, 5);
  EXPECT_EQ(found.model, "resnet8");
  EXPECT_EQ(loaded.replica.optimizer().steps_taken(), 7);  // the position counts
  const std::vector<Tensor> a = saved.tensors();
  const std::vector<Tensor> b = loaded.tensors();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()), 0) << i;
  }
  // And what was loaded is saved as the same bytes.
  CheckpointImage(loaded.replica.store(), loaded.replica.optimizer(), found).write(path("d"));
  EXPECT_EQ(get(path("c")), get(path("d")));
}

// Training goes on while it is written.
TEST_F(Checkpoint, IsOfTheMomentAtWhichItWasTaken) {
  Trained saved(11, "lr = 0.05\nmomentum = 0.9\n", "resnet8", "ema_decay = 0.9\n");
  WeightAverage* average = saved.replica.average();
  ASSERT_NE(average, nullptr);
  const CheckpointImage image(saved.replica.store(), saved.replica.optimizer(), trained_position,
                              average);
  image.write(path("before"));
  for (Tensor tensor : saved.tensors()) {
    for (float& value : tensor.span<float>()) value += 1.0F;
  }
  average->start_from(saved.replica.store());
  image.write(path("after"));
  EXPECT_EQ(get(path("after")), get(path("before")));
}

TEST_F(Checkpoint, OfAnotherRunIsRefused) {
  Trained saved(11);
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), trained_position)
      .write(path("c"));
  const std::string before = path("c").string() + " was made with ";
  const std::string advice =
      "; resume with the same, as the run's own config.toml has it, or start a new run with "
      "train.init";
  const auto message = [&](const TrainingPosition& expected, Trained& into) {
    return message_of<InputError>([&] {
      load_checkpoint(path("c"), into.replica.store(), into.replica.optimizer(), expected);
    });
  };
  Trained same(1);
  TrainingPosition other = trained_position;
  other.seed = 3;
  EXPECT_EQ(message(other, same),
            before + "train.seed 18446744073709551615, this run has 3" + advice);
  other = trained_position;
  other.global_batch = 32;
  EXPECT_EQ(message(other, same), before + "train.global_batch 16, this run has 32" + advice);
  other = trained_position;
  other.samples = 90;
  EXPECT_EQ(message(other, same), before + "a training set of 83, this run has 90" + advice);

  const std::string data_advice = "; resume with the same data, or start a new run with train.init";
  other = trained_position;
  other.labels = 7;
  EXPECT_EQ(message(other, same),
            before + "training data of other labels, or in another order" + data_advice);
  other.classes = 8;
  EXPECT_EQ(message(other, same), before + "training data of other class names" + data_advice);
  EXPECT_FALSE(has_other_classes(SafetensorsFile(path("c")), 0x12));
  EXPECT_TRUE(has_other_classes(SafetensorsFile(path("c")), 0x13));

  Trained deeper(1, "lr = 0.05\nmomentum = 0.9\n", "resnet20");
  const std::string model = message(trained_position, deeper);
  EXPECT_NE(model.find("does not fit the model: "), std::string::npos) << model;
  EXPECT_NE(model.find("'layer1.1.conv1.weight' is missing"), std::string::npos) << model;
}

// As older ones are: nothing is known of its data, and the next one saved knows it.
TEST_F(Checkpoint, WithoutFingerprintsIsTaken) {
  Trained saved(11);
  TrainingPosition older = trained_position;
  older.classes.reset();
  older.labels.reset();
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), older).write(path("c"));
  EXPECT_FALSE(SafetensorsFile(path("c")).metadata().contains("labels_fingerprint"));
  const TrainingPosition found = load_checkpoint(path("c"), saved.replica.store(),
                                                 saved.replica.optimizer(), trained_position);
  EXPECT_EQ(found.classes, trained_position.classes);
  EXPECT_EQ(found.labels, trained_position.labels);
  EXPECT_FALSE(has_other_classes(SafetensorsFile(path("c")), 0x13));
}

TEST_F(Checkpoint, KeepsTheAverageAndWhatEarlyStoppingKnows) {
  Trained saved(11);
  WeightAverage average(saved.replica.graph(), saved.context, {}, {.decay = 0.5});
  average.store().initialize(77);
  TrainingPosition stopped = trained_position;
  stopped.early_stop_metric = "loss";
  stopped.early_stop = {.best = 0.1 + 0.2, .best_step = 5, .waited = 2};
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), stopped, &average)
      .write(path("c"));
  Trained loaded(12);
  WeightAverage other(loaded.replica.graph(), loaded.context, {}, {.decay = 0.5});
  const auto load = [&](const char* file, const TrainingPosition& expected) {
    return load_checkpoint(path(file), loaded.replica.store(), loaded.replica.optimizer(), expected,
                           &other);
  };
  const TrainingPosition found = load("c", stopped);
  EXPECT_EQ(found.early_stop, stopped.early_stop);
  const auto same = [](const ParameterStore& a, const ParameterStore& b) {
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      if (std::memcmp(a.value(i).raw(), b.value(i).raw(), a.value(i).bytes()) != 0) return false;
    }
    return true;
  };
  EXPECT_TRUE(same(average.store(), other.store()));
  EXPECT_TRUE(same(saved.replica.store(), loaded.replica.store()));
  EXPECT_FALSE(same(saved.replica.store(), other.store()));
  // Of another metric it starts anew.
  EXPECT_EQ(load("c", trained_position).early_stop, EarlyStopState());
  // A checkpoint without an average starts one from its weights.
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), trained_position)
      .write(path("d"));
  load("d", trained_position);
  EXPECT_TRUE(same(saved.replica.store(), other.store()));
}

TEST_F(Checkpoint, KeepsTheLossScale) {
  Trained trained(11);
  const auto reload = [&](const std::optional<LossScale>& scale) {
    TrainingPosition scaled = trained_position;
    scaled.loss_scale = scale;
    CheckpointImage(trained.replica.store(), trained.replica.optimizer(), scaled).write(path("c"));
    return load_checkpoint(path("c"), trained.replica.store(), trained.replica.optimizer(),
                           trained_position)
        .loss_scale;
  };
  EXPECT_FALSE(reload({}));
  for (const float scale : {1.0F, 1024.0F, LossScale::first, 0x1p127F}) {
    const auto found = reload(LossScale{.scale = scale, .good_steps = 1999, .overflows = 3});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->scale, scale);
    EXPECT_EQ(found->good_steps, 1999);
    EXPECT_EQ(found->overflows, 3);
  }
}

TEST_F(Checkpoint, RefusesAnImpossibleLossScale) {
  Trained trained(11);
  for (const LossScale& scale :
       {LossScale{.scale = 0.5F}, LossScale{.scale = std::numeric_limits<float>::infinity()},
        LossScale{.scale = std::numeric_limits<float>::quiet_NaN()}, LossScale{.good_steps = -1},
        LossScale{.good_steps = 2000}, LossScale{.overflows = -1}}) {
    TrainingPosition scaled = trained_position;
    scaled.loss_scale = scale;
    CheckpointImage(trained.replica.store(), trained.replica.optimizer(), scaled).write(path("c"));
    const std::string message = message_of<InputError>([&] {
      load_checkpoint(path("c"), trained.replica.store(), trained.replica.optimizer(),
                      trained_position);
    });
    EXPECT_NE(message.find("use another checkpoint"), std::string::npos) << message;
  }
}

// What was written before there was early stopping has none of its keys.
TEST_F(Checkpoint, OfAnOlderFormatLoads) {
  Trained saved(11);
  CheckpointImage(saved.replica.store(), saved.replica.optimizer(), trained_position)
      .write(path("c"));
  const SafetensorsFile file(path("c"));
  SafetensorsMetadata metadata = file.metadata();
  std::erase_if(metadata, [](const auto& entry) {
    return entry.first.starts_with("early_stop") || entry.first == "crc32";
  });
  write_safetensors(path("old"), {file.tensors().begin(), file.tensors().end()}, metadata,
                    WriteChecksum::yes);
  Trained loaded(12);
  const TrainingPosition found = load_checkpoint(path("old"), loaded.replica.store(),
                                                 loaded.replica.optimizer(), trained_position);
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.early_stop, EarlyStopState());
}

TEST_F(Checkpoint, WithAnotherOptimizersStateIsRefused) {
  Trained plain(11, "lr = 0.05\n");
  CheckpointImage(plain.replica.store(), plain.replica.optimizer(), trained_position)
      .write(path("c"));
  Trained momentum(12);
  const std::string message = message_of<InputError>([&] {
    load_checkpoint(path("c"), momentum.replica.store(), momentum.replica.optimizer(),
                    trained_position);
  });
  EXPECT_EQ(message, path("c").string() + " has no momentum of 'fc.weight', which this run " +
                         "trains: " + other_recipe);
}

TEST_F(Checkpoint, OfOtherTrainedParametersIsRefused) {
  constexpr const char* recipe = "lr = 0.05\nmomentum = 0.9\n";
  Trained whole(11);
  Trained frozen(12, recipe, "resnet8", "freeze = [\"layer1\", \"layer2\"]\n");
  const auto message = [&](Trained& saved, Trained& into) {
    CheckpointImage(saved.replica.store(), saved.replica.optimizer(), trained_position)
        .write(path("c"));
    return message_of<InputError>([&] {
      load_checkpoint(path("c"), into.replica.store(), into.replica.optimizer(), trained_position);
    });
  };
  EXPECT_EQ(
      message(frozen, whole),
      path("c").string() +
          " has no momentum of 'layer2.0.conv2.weight', which this run trains: " + other_recipe);
  EXPECT_EQ(message(whole, frozen),
            path("c").string() +
                " has 'optimizer.momentum.layer2.0.conv2.weight', which this run does not need: " +
                other_recipe);
  EXPECT_EQ(message(frozen, frozen), "nothing was thrown");
}

TEST_F(Checkpoint, WeightsAloneAreNoCheckpoint) {
  Trained trained(11);
  write_safetensors(path("w"), WeightsExport(trained.replica.store(), 1).tensors());
  EXPECT_EQ(message_of<InputError>([&] {
              load_checkpoint(path("w"), trained.replica.store(), trained.replica.optimizer(),
                              trained_position);
            }),
            path("w").string() +
                " holds weights but no training state; start from it with train.init instead");
}

}  // namespace
}  // namespace tandem
