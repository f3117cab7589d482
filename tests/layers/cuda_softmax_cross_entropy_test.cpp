#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "device/arena.h"
#include "device/memory.h"
#include "layers/cuda_kernel_run.h"
#include "layers/softmax_cross_entropy.h"
#include "tensor/convert.h"

// The loss on a CUDA device against the CPU's on the same (rounded) logits, which
// softmax_cross_entropy_test.cpp holds to the definition: by a warp for each sample and, with more
// than 256 classes, by a block.

namespace tandem {
namespace {

/// A batch with its targets; second labels and weights empty where nothing is mixed.
struct LossBatch {
  std::int64_t classes = 0;
  std::vector<float> logits{};
  std::vector<std::int32_t> labels{};
  std::vector<std::int32_t> second_labels{};
  std::vector<float> weights{};
  std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Outcome {
  LossSums sums;
  std::vector<float> gradient;
};

class LossOn {
 public:
  LossOn(AnyContext& context, const LossBatch& batch, DType dtype)
      : context_(context),
        shape_{batch.samples(), batch.classes},
        values_(context, batch.logits.size() * sizeof(float), "a test"),
        logits_(context, batch.logits.size() * size_of(dtype), "a test"),
        gradient_(context, batch.logits.size() * size_of(dtype), "a test"),
        labels_(of(batch.labels)),
        second_labels_(of(batch.second_labels)),
        weights_(of(batch.weights)),
        scratch_(context, softmax_cross_entropy_scratch(batch.samples()), "a test"),
        dtype_(dtype),
        mixed_(!batch.second_labels.empty()) {
    copy_to_device(context, batch.logits.data(), values_.bytes(), values_.data());
    convert(context, Tensor(values_.data(), shape_), tensor(logits_));
  }

  Outcome run(float smoothing, std::int64_t valid) {
    const LossSums sums = softmax_cross_entropy(context_, tensor(logits_), targets(), smoothing,
                                                valid, tensor(gradient_), scratch_.data());
    return {sums, gradient()};
  }

  /// By the form for captured steps, with gradients times `scale`.
  Outcome enqueue(float smoothing, std::int64_t valid, float scale) {
    const Arena numbers = of(std::vector<float>{scale, -1.0F, -1.0F, -1.0F, -1.0F});
    auto* at = reinterpret_cast<float*>(numbers.data());
    softmax_cross_entropy_into(context_, tensor(logits_), targets(), smoothing, valid,
                               tensor(gradient_), at, Tensor(at + 1, {4}), scratch_.data());
    synchronize(context_);
    float sums[4];
    copy_to_host(context_, at + 1, sizeof sums, sums);
    const auto count = [&](int i) { return static_cast<std::int64_t>(sums[i]); };
    return {{static_cast<double>(sums[0]), count(1), count(2), count(3)}, gradient()};
  }

 private:
  template <typename Value>
  Arena of(const std::vector<Value>& values) {
    Arena arena(context_, std::max<std::size_t>(values.size() * sizeof(Value), 4), "a test");
    if (!values.empty()) {
      copy_to_device(context_, values.data(), values.size() * sizeof(Value), arena.data());
    }
    return arena;
  }
  Tensor tensor(const Arena& arena) const { return {arena.data(), shape_, dtype_}; }
  Targets targets() const {
    const Shape rows{shape_[0]};
    Targets targets{Tensor(labels_.data(), rows, DType::i32)};
    if (mixed_) {
      targets.second_labels = Tensor(second_labels_.data(), rows, DType::i32);
      targets.weights = Tensor(weights_.data(), rows);
    }
    return targets;
  }
  std::vector<float> gradient() const {
    convert(context_, tensor(gradient_), Tensor(values_.data(), shape_));
    synchronize(context_);
    std::vector<float> values(static_cast<std::size_t>(shape_.elements()));
    copy_to_host(context_, values_.data(), values_.bytes(), values.data());
    return values;
  }

  AnyContext& context_;
  Shape shape_;
  Arena values_;
  Arena logits_;
  Arena gradient_;
  Arena labels_;
  Arena second_labels_;
  Arena weights_;
  Arena scratch_;
  DType dtype_;
  bool mixed_;
};

LossBatch draw(std::int64_t samples, std::int64_t classes, bool mixed) {
  RandomStream random(5, "a loss of " + std::to_string(classes) + " classes");
  const auto label = [&] {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  };
  LossBatch batch{.classes = classes};
  for (std::int64_t n = 0; n < samples; ++n) {
    batch.labels.push_back(label());
    if (mixed) {
      batch.second_labels.push_back(n % 5 == 0 ? batch.labels.back() : label());
      batch.weights.push_back(n % 4 == 0 ? 0.5F : static_cast<float>(n % 4) * 0.3F);
    }
    for (std::int64_t k = 0; k < classes; ++k) batch.logits.push_back(2.0F * random.normal());
    // So that samples of many classes are hits too, of one or of five.
    if (n % 3 != 0) {
      const std::int64_t own = n * classes + batch.labels.back();
      batch.logits[static_cast<std::size_t>(own)] += n % 3 == 1 ? 8.0F : 5.0F;
    }
  }
  return batch;
}

Outcome on_cpu(const LossBatch& batch, float smoothing, std::int64_t valid) {
  AnyContext cpu(std::in_place_type<CpuContext>, 1);
  return LossOn(cpu, batch, DType::f32).run(smoothing, valid);
}

/// Half of the distance between neighbouring values, relative to them; and the least value.
struct Rounding {
  double relative;
  double least;
};
Rounding rounding_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {0x1p-8, 0.0};
    case DType::f16:
      return {0x1p-10, 0x1p-24};
    default:
      return {0.0, 0.0};
  }
}

void expect_same(const Outcome& found, const Outcome& expected, std::int64_t samples, DType dtype,
                 double scale = 1.0) {
  EXPECT_NEAR(found.sums.loss, expected.sums.loss, 4e-6 * (std::abs(expected.sums.loss) + 1.0));
  EXPECT_EQ(found.sums.samples, expected.sums.samples);
  EXPECT_EQ(found.sums.top1, expected.sums.top1);
  EXPECT_EQ(found.sums.top5, expected.sums.top5);
  const Rounding rounding = rounding_of(dtype);
  const double absolute = 2e-6 * scale / static_cast<double>(samples) + rounding.least;
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    const double value = scale * static_cast<double>(expected.gradient[i]);
    ASSERT_NEAR(static_cast<double>(found.gradient[i]), value,
                absolute + rounding.relative * std::abs(value))
        << i;
  }
}

struct DeviceLoss : testing::TestWithParam<DType> {
  AnyContext gpu = CudaContext(0);
  LossBatch rounded_to_type(LossBatch batch) {
    batch.logits = rounded(gpu, batch.logits, GetParam());
    return batch;
  }
};

TEST_P(DeviceLoss, IsTheCpus) {
  for (const std::int64_t classes : {1, 2, 10, 31, 255, 256, 257, 1000}) {
    for (const bool mixed : {false, true}) {
      const LossBatch batch = rounded_to_type(draw(37, classes, mixed));
      for (const float smoothing : {0.0F, 0.1F}) {
        for (const std::int64_t valid : {0, 30, 37}) {
          SCOPED_TRACE(fmt::format("{} classes, mixed {}, smoothing {}, {} valid", classes, mixed,
                                   smoothing, valid));
          expect_same(LossOn(gpu, batch, GetParam()).run(smoothing, valid),
                      on_cpu(batch, smoothing, valid), batch.samples(), GetParam());
        }
      }
    }
  }
}

TEST_P(DeviceLoss, OfACapturedStepScalesItsGradients) {
  for (const std::int64_t classes : {10, 1000}) {
    const LossBatch batch = rounded_to_type(draw(37, classes, true));
    for (const std::int64_t valid : {0, 30, 37}) {
      SCOPED_TRACE(fmt::format("{} classes, {} valid", classes, valid));
      expect_same(LossOn(gpu, batch, GetParam()).enqueue(0.1F, valid, 64.0F),
                  on_cpu(batch, 0.1F, valid), batch.samples(), GetParam(), 64.0);
    }
  }
}

TEST_P(DeviceLoss, RanksEqualLogitsByIndexAndExcludesMinusInfinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t classes : {8, 300}) {
    LossBatch batch{.classes = classes, .labels = {0, 4, 5, 7, 1}};
    batch.logits.assign(static_cast<std::size_t>(5 * classes), 1.0F);
    for (std::int64_t k = 2; k < classes; ++k) {
      batch.logits[static_cast<std::size_t>(4 * classes + k)] = -infinity;
    }
    const Outcome found = LossOn(gpu, batch, GetParam()).run(0.0F, 5);
    expect_same(found, on_cpu(batch, 0.0F, 5), 5, GetParam());
    EXPECT_EQ(found.sums.top1, 1);
    EXPECT_EQ(found.sums.top5, 3);
  }
}

TEST_P(DeviceLoss, ANanLogitIsAMissAndMakesTheLossNan) {
  for (const std::int64_t classes : {8, 300}) {
    LossBatch batch = draw(4, classes, false);
    const std::int64_t own = 1 * classes + batch.labels[1];
    batch.logits[static_cast<std::size_t>(own)] = std::numeric_limits<float>::quiet_NaN();
    const Outcome found = LossOn(gpu, batch, GetParam()).run(0.0F, 4);
    const Outcome expected = on_cpu(rounded_to_type(batch), 0.0F, 4);
    EXPECT_TRUE(std::isnan(found.sums.loss));
    EXPECT_EQ(found.sums.top1, expected.sums.top1);
    EXPECT_EQ(found.sums.top5, expected.sums.top5);
  }
}

TEST_P(DeviceLoss, ALabelOrWeightOutOfRangeIsAnErrorOrMakesItNan) {
  const auto with_label = [](std::int32_t label) {
    LossBatch batch = draw(5, 10, false);
    batch.labels[3] = label;
    return batch;
  };
  LossBatch heavy = draw(5, 10, true);
  heavy.weights[2] = 1.5F;
  for (const LossBatch& batch : {with_label(-1), with_label(10), heavy}) {
    EXPECT_THROW(LossOn(gpu, batch, GetParam()).run(0.0F, 5), Error);
    EXPECT_TRUE(std::isnan(LossOn(gpu, batch, GetParam()).enqueue(0.0F, 5, 1.0F).sums.loss));
  }
  // Samples that do not count are not looked at.
  EXPECT_NO_THROW(LossOn(gpu, with_label(-1), GetParam()).run(0.0F, 3));
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceLoss, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace tandem
