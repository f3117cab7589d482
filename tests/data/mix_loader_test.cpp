#include <gtest/gtest.h>

#include <algorithm>

#include "data/data_loader.h"
#include "data/support.h"
#include "data/troubled_dataset.h"

// What a loader mixes, against torchvision's definition written out on whole global batches:
// roll(1) of pictures and labels, one weight and box for each step.

namespace tandem::testing {
namespace {

constexpr std::int64_t global = 12;
constexpr std::uint64_t seed = 9;

/// Samples one after the other.
struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> second_labels;
  std::vector<float> weights;
  bool operator==(const Samples&) const = default;

  void add(const Batch& batch) {
    const auto append = [](auto& to, auto from) { to.insert(to.end(), from.begin(), from.end()); };
    append(images, batch.images.span<float>());
    append(labels, batch.labels.span<std::int32_t>());
    append(second_labels, batch.second_labels.span<std::int32_t>());
    append(weights, batch.label_weights.span<float>());
  }
};

class MixLoader : public ::testing::TestWithParam<MixOptions> {
 protected:
  static DistributedSampler::Options order() {
    return {.size = 50, .global_batch = global, .seed = 4};
  }
  static constexpr std::int64_t steps_per_epoch = 4;

  DataLoader::Options loading(int batch, bool mixed = true) const {
    DataLoader::Options options{.batch = batch, .workers = 2, .seed = seed};
    options.on_bad_sample = OnBadSample::replace;
    if (mixed) options.mix = GetParam();
    return options;
  }

  /// Step `step` of a run, by `world` ranks of `accumulate` micro-batches, in the global order.
  Samples together(int world, int accumulate, std::int64_t step, int workers = 2) const {
    Samples all;
    for (int micro = 0; micro < accumulate; ++micro) {
      for (int rank = 0; rank < world; ++rank) {
        DistributedSampler::Options part = order();
        part.world = world;
        part.rank = rank;
        part.accumulate = accumulate;
        const DistributedSampler sampler(part);
        DataLoader::Options options = loading(static_cast<int>(sampler.micro_batch()));
        options.workers = workers;
        DataLoader loader(data, transform, training_batches(sampler), options);
        loader.start(step * accumulate + micro);
        all.add(*loader.next());
      }
    }
    return all;
  }

  /// Whether a box shows a pixel, counted by rows of eight.
  static bool within(const PixelRect& box, int pixel) {
    const int x = pixel % 8;
    const int y = pixel / 8;
    return y >= box.top && y < box.top + box.height && x >= box.left && x < box.left + box.width;
  }

  /// The same by the definition, from the batch as it is without mixing.
  Samples defined(std::int64_t step) const {
    DataLoader loader(data, transform, training_batches(DistributedSampler(order())),
                      loading(global, false));
    loader.start(step);
    const Batch& batch = *loader.next();
    RandomStream random = mix_stream(seed, step / steps_per_epoch, step % steps_per_epoch);
    const Mix mix = draw_mix(GetParam(), 8, random);
    const auto images = batch.images.span<float>();
    const auto labels = batch.labels.span<std::int32_t>();
    Samples all;
    for (std::size_t n = 0; n < global; ++n) {
      const std::size_t rolled = (n + global - 1) % global;
      all.labels.push_back(labels[n]);
      all.second_labels.push_back(labels[rolled]);
      all.weights.push_back(static_cast<float>(mix.weight));
      for (std::size_t at = 0; at < 64; ++at) {
        const double own = images[64 * n + at];
        const double other = images[64 * rolled + at];
        const bool inside = mix.box && within(*mix.box, static_cast<int>(at));
        const double blended = mix.weight * own + (1.0 - mix.weight) * other;
        all.images.push_back(static_cast<float>(!mix.box ? blended : inside ? other : own));
      }
    }
    return all;
  }

  TroubledDataset data{50};
  Transform transform{augmented()};
};

void expect_defined(const Samples& found, const Samples& wanted) {
  EXPECT_EQ(found.labels, wanted.labels);
  EXPECT_EQ(found.second_labels, wanted.second_labels);
  EXPECT_EQ(found.weights, wanted.weights);
  ASSERT_EQ(found.images.size(), wanted.images.size());
  for (std::size_t i = 0; i < wanted.images.size(); ++i) {
    ASSERT_NEAR(found.images[i], wanted.images[i], 3e-7F) << i;
  }
}

TEST_P(MixLoader, IsTheDefinitionOnTheGlobalBatch) {
  for (std::int64_t step = 0; step < 6; ++step) expect_defined(together(1, 1, step), defined(step));
}

TEST_P(MixLoader, RanksAndMicroBatchesChangeNothing) {
  for (const std::int64_t step : {0, 3, 4, 9}) {
    const Samples one = together(1, 1, step);
    for (const int world : {1, 2, 4}) {
      for (const int accumulate : {1, 3}) {
        EXPECT_EQ(together(world, accumulate, step), one) << world << " x " << accumulate;
      }
    }
    EXPECT_EQ(together(12, 1, step), one) << "a sample a rank";
    EXPECT_EQ(together(2, 1, step, 5), one) << "five workers";
  }
}

TEST_P(MixLoader, ReplacedSamplesAreTheSameAsPartners) {
  data.broken_from = 25;  // half of all, so that many partners are
  for (const std::int64_t step : {0, 1, 5}) {
    const Samples one = together(1, 1, step);
    expect_defined(one, defined(step));
    EXPECT_EQ(together(4, 1, step), one);
    EXPECT_EQ(together(2, 3, step), one);
  }
}

TEST_P(MixLoader, GoesOnFromAnyStep) {
  DataLoader loader(data, transform, training_batches(DistributedSampler(order())),
                    loading(global));
  for (std::int64_t step = 0; step < 7; ++step) {
    Samples all;
    all.add(*loader.next());
    EXPECT_EQ(all, together(1, 1, step)) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MixLoader,
                         ::testing::Values(MixOptions{.mixup = 0.4}, MixOptions{.cutmix = 1.0},
                                           MixOptions{.mixup = 0.4, .cutmix = 1.0}),
                         [](const auto& kind) {
                           return std::string(kind.param.mixup > 0.0 ? "mixup" : "") +
                                  (kind.param.cutmix > 0.0 ? "cutmix" : "");
                         });

class MixLoaderEdges : public ::testing::Test {
 protected:
  TroubledDataset data{6};
  Transform transform{augmented()};
};

// Weights are above zero, and a picture mixed with itself is itself.
TEST_F(MixLoaderEdges, AGlobalBatchOfOneIsMixedWithItself) {
  const auto source = [] {
    return training_batches(DistributedSampler({.size = 6, .global_batch = 1, .seed = 4}));
  };
  DataLoader mixed(data, transform, source(), {.batch = 1, .seed = seed, .mix = {.mixup = 1.0}});
  DataLoader plain(data, transform, source(), {.batch = 1, .seed = seed});
  for (int step = 0; step < 12; ++step) {
    const Batch& a = *mixed.next();
    const Batch& b = *plain.next();
    EXPECT_FALSE(b.second_labels.defined());
    EXPECT_FALSE(b.label_weights.defined());
    EXPECT_EQ(a.labels.span<std::int32_t>()[0], b.labels.span<std::int32_t>()[0]);
    EXPECT_EQ(a.second_labels.span<std::int32_t>()[0], b.labels.span<std::int32_t>()[0]);
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_NEAR(a.images.span<float>()[i], b.images.span<float>()[i], 3e-7F);
    }
  }
}

// Each bad sample is listed by the rank that trains on it, not again where it is a partner.
TEST_F(MixLoaderEdges, ABadPartnerIsListedWhereItIsTrainedOn) {
  data.broken_from = 3;
  std::vector<std::int64_t> bad;
  for (int rank = 0; rank < 6; ++rank) {
    DataLoader loader(data, transform,
                      training_batches(DistributedSampler(
                          {.size = 6, .global_batch = 6, .world = 6, .rank = rank, .seed = 4})),
                      {.batch = 1,
                       .workers = 2,
                       .seed = seed,
                       .on_bad_sample = OnBadSample::replace,
                       .mix = {.cutmix = 1.0}});
    for (const BadSample& each : loader.next()->bad) bad.push_back(each.index);
  }
  std::sort(bad.begin(), bad.end());
  EXPECT_EQ(bad, (std::vector<std::int64_t>{3, 4, 5}));
}

TEST_F(MixLoaderEdges, ABadPartnerFailsTheBatch) {
  data.broken_from = 5;
  const auto next_of = [&](int rank) {
    const DistributedSampler sampler(
        {.size = 6, .global_batch = 6, .world = 6, .rank = rank, .shuffle = false});
    DataLoader loader(data, transform, training_batches(sampler),
                      {.batch = 1, .mix = {.mixup = 1.0}});
    return loader.next()->indices;
  };
  EXPECT_EQ(next_of(4), std::vector<std::int64_t>{4});
  expect_input_error([&] { next_of(0); }, {"sample 5 is broken"});
}

TEST_F(MixLoaderEdges, LoadsOnlyPartnersThatTheBatchLacks) {
  const auto loads = [&](int world) {
    data.loads = 0;
    BatchSource endless = training_batches(
        DistributedSampler({.size = 6, .global_batch = 6, .world = world, .seed = 4}));
    const BatchSource two = [&](std::int64_t ordinal) {
      return ordinal < 2 ? endless(ordinal) : std::nullopt;
    };
    DataLoader loader(data, transform, two, {.batch = 6 / world, .mix = {.mixup = 1.0}});
    while (loader.next() != nullptr) continue;
    return data.loads.load();
  };
  EXPECT_EQ(loads(1), 2 * 6);
  EXPECT_EQ(loads(2), 2 * (3 + 1));
}

TEST_F(MixLoaderEdges, EvaluationsAreNoBatchesToMix) {
  const DataLoader::Options options{.batch = 4, .mix = {.mixup = 1.0}};
  DataLoader loader(data, transform, evaluation_batches(EvaluationSampler({.size = 6, .batch = 4})),
                    options);
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
  DataLoader::Options dropping = options;
  dropping.on_bad_sample = OnBadSample::drop;
  EXPECT_THROW(
      DataLoader(data, transform,
                 training_batches(DistributedSampler({.size = 6, .global_batch = 4})), dropping),
      Error);
}

}  // namespace
}  // namespace tandem::testing
