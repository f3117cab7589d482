#include <chrono>
#include <thread>

#include "data/data_loader.h"
#include "data/data_timeout.h"
#include "data/support.h"
#include "data/troubled_dataset.h"
#include "support/spoken_words.h"

namespace tandem::testing {
namespace {

struct Copy {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> indices;
  int valid = 0;
  std::int64_t epoch = 0;
  bool operator==(const Copy&) const = default;
};

Copy copy_of(const Batch& batch) {
  const auto images = batch.images.span<float>();
  const auto labels = batch.labels.span<std::int32_t>();
  return {{images.begin(), images.end()},
          {labels.begin(), labels.end()},
          batch.indices,
          batch.valid,
          batch.epoch};
}

class Loader : public ::testing::Test {
 protected:
  BatchSource training(int world = 1, int rank = 0, int accumulate = 1) const {
    return training_batches(DistributedSampler({.size = data.size(),
                                                .global_batch = 12,
                                                .world = world,
                                                .rank = rank,
                                                .accumulate = accumulate,
                                                .seed = 4}));
  }
  std::vector<Copy> take(BatchSource source, DataLoader::Options options, std::int64_t from,
                         int count) const {
    DataLoader loader(data, transform, std::move(source), options);
    loader.start(from);
    std::vector<Copy> batches;
    for (int i = 0; i < count; ++i) {
      const Batch* batch = loader.next();
      if (batch == nullptr) break;
      EXPECT_EQ(batch->ordinal, from + i);
      batches.push_back(copy_of(*batch));
    }
    return batches;
  }

  TroubledDataset data{50};
  Transform transform{augmented()};
};

TEST_F(Loader, NamesASampleThatDoesNotCome) {
  data.delay_ms = 5000;
  DataLoader loader(data, transform, training(), {.batch = 12, .timeout_seconds = 1.5});
  const auto begin = std::chrono::steady_clock::now();
  try {
    loader.next();
    FAIL() << "waited for it";
  } catch (const DataTimeout& error) {
    const std::string first = data.describe(
        DistributedSampler({.size = 50, .global_batch = 12, .seed = 4}).indices(0, 0, 0).front());
    EXPECT_EQ(std::string(error.what()),
              first +
                  ": waited 1.5 s for it, in which no other sample was read either; look at "
                  "the disk or the network that it lies on, or raise data.timeout_seconds");
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited.count(), 1.5);
}

TEST_F(Loader, NamesTheSampleThatAThreadIsAt) {
  const auto order =
      DistributedSampler({.size = 50, .global_batch = 12, .seed = 4}).indices(0, 0, 0);
  data.slow = order[8];
  DataLoader loader(data, transform, training(),
                    {.batch = 12, .workers = 3, .timeout_seconds = 1.5});
  try {
    loader.next();
    FAIL() << "waited for it";
  } catch (const DataTimeout& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(data.describe(data.slow) + ": waited"))
        << error.what();
  }
}

/// One sample is broken, another one hangs: what is known goes first.
TEST_F(Loader, TellsABrokenSampleRatherThanOneThatHangs) {
  data.broken_from = 0;
  const auto order =
      DistributedSampler({.size = 50, .global_batch = 12, .seed = 4}).indices(0, 0, 0);
  data.slow = order[6];
  DataLoader loader(data, transform, training(),
                    {.batch = 12, .workers = 2, .timeout_seconds = 1.5});
  EXPECT_THROW(loader.next(), InputError);
}

/// By a process that does not get to where somebody would add the step.
TEST_F(Loader, LeavesLastWordsWithTheStepOfASampleThatDoesNotCome) {
  data.delay_ms = 5000;
  expect_spoken(
      7, "^step 7: .*: waited 0\\.5 s for it, in which no other sample was read either; ", [&] {
        DataLoader(data, transform, training(), {.batch = 12, .timeout_seconds = 0.5}).next();
      });
}

TEST_F(Loader, LeavesLastWordsWithTheStepOfABrokenSampleBesideOneThatHangs) {
  data.broken_from = 0;
  data.slow = DistributedSampler({.size = 50, .global_batch = 12, .seed = 4}).indices(0, 0, 0)[6];
  expect_spoken(7, "^step 7: .*sample [0-9]+ is broken", [&] {
    DataLoader(data, transform, training(), {.batch = 12, .workers = 2, .timeout_seconds = 0.5})
        .next();
  });
}

/// Each reading counts, in place of broken samples too: 4 s for a single position.
TEST_F(Loader, CountsWhatIsReadInTheirPlace) {
  data.broken_from = 0;
  data.delay_ms = 40;
  DataLoader loader(data, transform, training(),
                    {.batch = 12, .on_bad_sample = OnBadSample::replace, .timeout_seconds = 3.0});
  EXPECT_THROW(loader.next(), InputError) << "too much is broken";
}

TEST_F(Loader, WaitsForSamplesThatComeSlowly) {
  data.delay_ms = 400;
  DataLoader loader(data, transform, training(), {.batch = 12, .timeout_seconds = 3.0});
  EXPECT_NE(loader.next(), nullptr) << "4.8 s";
}

TEST_F(Loader, WaitsForEverWhereItIsToldTo) {
  data.delay_ms = 700;
  DataLoader loader(data, transform, training(), {.batch = 12, .workers = 12});
  EXPECT_NE(loader.next(), nullptr);
}

TEST_F(Loader, GivesWhatTheTransformGivesAcrossEpochs) {
  DistributedSampler sampler({.size = 50, .global_batch = 12, .seed = 4});
  const auto batches = take(training(), {.batch = 12, .workers = 2, .seed = 9}, 0, 10);
  ASSERT_EQ(batches.size(), 10U);
  for (std::int64_t i = 0; i < 10; ++i) {
    const Copy& batch = batches[static_cast<std::size_t>(i)];
    EXPECT_EQ(batch.epoch, i / 4);
    EXPECT_EQ(batch.valid, 12);
    ASSERT_EQ(batch.indices, sampler.indices(i / 4, i % 4, 0));
    for (std::size_t n = 0; n < 12; ++n) {
      EXPECT_EQ(batch.labels[n], data.label(batch.indices[n]));
      std::vector<float> wanted(64);
      RandomStream random = augmentation_stream(9, i / 4, batch.indices[n]);
      transform.apply(*data.open(batch.indices[n]), random, wanted.data());
      const auto begin = batch.images.begin() + static_cast<std::ptrdiff_t>(64 * n);
      ASSERT_EQ(std::vector<float>(begin, begin + 64), wanted);
    }
  }
}

TEST_F(Loader, DoesNotDependOnWorkersOrPrefetch) {
  const auto one = take(training(), {.batch = 12, .workers = 1, .prefetch = 1, .seed = 9}, 0, 9);
  EXPECT_EQ(take(training(), {.batch = 12, .workers = 4, .seed = 9}, 0, 9), one);
  EXPECT_EQ(take(training(), {.batch = 12, .workers = 3, .prefetch = 7, .seed = 9}, 0, 9), one);
}

TEST_F(Loader, RanksTogetherGiveTheSameSamples) {
  const auto one = take(training(), {.batch = 12, .seed = 9}, 0, 5);
  for (std::int64_t step = 0; step < 5; ++step) {
    std::vector<float> images;
    for (int micro = 0; micro < 2; ++micro) {
      for (int rank = 0; rank < 3; ++rank) {
        const auto part = take(training(3, rank, 2), {.batch = 2, .seed = 9}, 2 * step + micro, 1);
        images.insert(images.end(), part[0].images.begin(), part[0].images.end());
      }
    }
    EXPECT_EQ(images, one[static_cast<std::size_t>(step)].images);
  }
}

TEST_F(Loader, RandAugmentsTheSameOnAnyRanksAndThreads) {
  const auto plain = take(training(), {.batch = 12, .seed = 9}, 0, 5);
  TransformOptions options = augmented();
  options.rand_augment = {.ops = 2, .magnitude = 20};
  transform = Transform(options);
  const auto one = take(training(), {.batch = 12, .workers = 1, .seed = 9}, 0, 5);
  EXPECT_EQ(take(training(), {.batch = 12, .workers = 4, .seed = 9}, 0, 5), one);
  for (std::int64_t step = 0; step < 5; ++step) {
    std::vector<float> images;
    for (int rank = 0; rank < 3; ++rank) {
      const DataLoader::Options part{.batch = 4, .workers = 1 + rank, .seed = 9};
      const auto batches = take(training(3, rank), part, step, 1);
      images.insert(images.end(), batches[0].images.begin(), batches[0].images.end());
    }
    EXPECT_EQ(images, one[static_cast<std::size_t>(step)].images);
    EXPECT_NE(images, plain[static_cast<std::size_t>(step)].images);
  }
}

TEST_F(Loader, ResumesInTheMiddle) {
  const auto all = take(training(), {.batch = 12, .workers = 2, .seed = 9}, 0, 9);
  const DistributedSampler sampler({.size = 50, .global_batch = 12, .seed = 4});
  DataLoader loader(data, transform, training(), {.batch = 12, .workers = 2, .seed = 9});
  EXPECT_EQ(copy_of(*loader.next()), all[0]);
  loader.start(sampler.ordinal(1, 2));
  for (std::size_t i = 6; i < 9; ++i) EXPECT_EQ(copy_of(*loader.next()), all[i]);
  loader.start(2);
  EXPECT_EQ(copy_of(*loader.next()), all[2]);
}

TEST_F(Loader, EvaluatesEverySampleOnceWithPadding) {
  std::vector<int> seen(50);
  for (int rank = 0; rank < 3; ++rank) {
    const EvaluationSampler sampler({.size = 50, .batch = 8, .world = 3, .rank = rank});
    const auto batches = take(evaluation_batches(sampler), {.batch = 8, .workers = 3}, 0, 99);
    ASSERT_EQ(batches.size(), 3U);
    for (const Copy& batch : batches) {
      const auto valid = static_cast<std::size_t>(batch.valid);
      ASSERT_EQ(batch.indices.size(), valid);
      for (const std::int64_t index : batch.indices) ++seen[static_cast<std::size_t>(index)];
      for (std::size_t i = valid * 64; i < batch.images.size(); ++i) {
        ASSERT_EQ(batch.images[i], 0.0F);
      }
      for (std::size_t i = valid; i < 8; ++i) EXPECT_EQ(batch.labels[i], 0);
    }
    EXPECT_EQ(batches[2].valid, rank == 0 ? 2 : 0);
  }
  EXPECT_EQ(seen, std::vector<int>(50, 1));
}

TEST_F(Loader, RepeatsThePassAfterStart) {
  DataLoader loader(data, transform,
                    evaluation_batches(EvaluationSampler({.size = 50, .batch = 32})),
                    {.batch = 32, .prefetch = 1});
  for (int pass = 0; pass < 3; ++pass) {
    loader.start(0);
    EXPECT_EQ(loader.next()->valid, 32);
    EXPECT_EQ(loader.next()->valid, 18);
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST_F(Loader, ErrorsComeInOrder) {
  data.broken_from = 21;
  for (const int workers : {1, 4}) {
    DataLoader loader(data, transform,
                      evaluation_batches(EvaluationSampler({.size = 50, .batch = 10})),
                      {.batch = 10, .workers = workers});
    EXPECT_EQ(loader.next()->indices.front(), 0);
    EXPECT_EQ(loader.next()->indices.front(), 10);
    for (int again = 0; again < 2; ++again) {
      expect_input_error([&] { static_cast<void>(loader.next()); }, {"sample 21 is broken"});
    }
    loader.start(1);
    EXPECT_EQ(loader.next()->indices.front(), 10);
  }
}

TEST_F(Loader, ReplacesBadSamplesTheSameOnAnyRanksAndThreads) {
  data.broken_from = 40;
  const DataLoader::Options whole{
      .batch = 12, .workers = 1, .seed = 9, .on_bad_sample = OnBadSample::replace};
  DataLoader loader(data, transform, training(), whole);
  int replaced = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch* batch = loader.next();
    const Copy one = copy_of(*batch);
    EXPECT_EQ(one.valid, 12);
    std::vector<std::int64_t> bad;
    for (const std::int64_t index : one.indices) {
      if (index >= 40) bad.push_back(index);
    }
    ASSERT_EQ(batch->bad.size(), bad.size());
    for (std::size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(batch->bad[i].index, bad[i]);
      EXPECT_EQ(batch->bad[i].reason, "sample " + std::to_string(bad[i]) + " is broken");
    }
    replaced += static_cast<int>(bad.size());
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    for (int rank = 0; rank < 3; ++rank) {
      const auto part =
          take(training(3, rank),
               {.batch = 4, .workers = 1 + rank, .seed = 9, .on_bad_sample = OnBadSample::replace},
               step, 1);
      images.insert(images.end(), part[0].images.begin(), part[0].images.end());
      labels.insert(labels.end(), part[0].labels.begin(), part[0].labels.end());
    }
    EXPECT_EQ(images, one.images);
    EXPECT_EQ(labels, one.labels);
    // Every image is that of a sample that can be read, with its label.
    for (std::size_t n = 0; n < 12; ++n) {
      bool found = false;
      for (std::int64_t index = 0; index < 40 && !found; ++index) {
        std::vector<float> wanted(64);
        RandomStream random = augmentation_stream(9, one.epoch, index);
        transform.apply(*data.open(index), random, wanted.data());
        found = std::equal(wanted.begin(), wanted.end(),
                           one.images.begin() + static_cast<std::ptrdiff_t>(64 * n)) &&
                data.label(index) == one.labels[n];
      }
      EXPECT_TRUE(found) << n;
    }
  }
  EXPECT_GT(replaced, 3);
}

TEST_F(Loader, DropsBadSamples) {
  data.broken_from = 45;
  DataLoader loader(data, transform,
                    evaluation_batches(EvaluationSampler({.size = 50, .batch = 24})),
                    {.batch = 24, .workers = 2, .on_bad_sample = OnBadSample::drop});
  EXPECT_TRUE(loader.next()->bad.empty());
  const Copy good = copy_of(*loader.next());
  EXPECT_EQ(good.valid, 21);
  EXPECT_EQ(good.indices.back(), 44);
  const Batch* last = loader.next();
  EXPECT_EQ(last->valid, 0);
  EXPECT_EQ(last->bad.size(), 2U);
  for (const float value : last->images.span<float>()) ASSERT_EQ(value, 0.0F);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST_F(Loader, GivesUpWhereNothingCanBeRead) {
  data.broken_from = 0;
  DataLoader loader(data, transform, training(),
                    {.batch = 12, .on_bad_sample = OnBadSample::replace});
  expect_input_error([&] { static_cast<void>(loader.next()); },
                     {" is broken; nor could 100 samples", "too much of the data"});
}

TEST_F(Loader, StopsEarlyAndQuickly) {
  data.delay_ms = 60;
  for (int i = 0; i < 5; ++i) {
    DataLoader loader(data, transform, training(), {.batch = 12, .workers = 2, .prefetch = 4});
    loader.start(i);
    if (i % 2 == 1) {
      EXPECT_NE(loader.next(), nullptr);
    }
  }
  // What was asked for is 60 samples a loader; stopping waits for the one at hand of each thread.
  EXPECT_LT(data.loads, 150);
}

TEST_F(Loader, CallsBackWhileItWaits) {
  data.delay_ms = 100;  // a batch takes 1.2 s
  int calls = 0;
  DataLoader loader(data, transform, training(), {.batch = 12, .while_waiting = [&] { ++calls; }});
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_GE(calls, 2);
}

TEST_F(Loader, PrefetchesNoMoreThanAsked) {
  DataLoader loader(data, transform, training(), {.batch = 12, .workers = 2, .prefetch = 2});
  loader.start(0);
  EXPECT_NE(loader.next(), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(data.loads, 3 * 12);
  data.delay_ms = 20;
  const double before = loader.wait_seconds();
  for (int i = 0; i < 4; ++i) EXPECT_NE(loader.next(), nullptr);
  EXPECT_GT(loader.wait_seconds(), before);
}

}  // namespace
}  // namespace tandem::testing
