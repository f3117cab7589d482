#include "layers/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"
#include "support/message.h"

namespace tandem {
namespace {

struct Outcome {
  LossSums sums;
  std::vector<float> gradient;
};

/// Second labels and what the first ones count; empty where nothing is mixed.
struct Partners {
  std::vector<std::int32_t> labels{};
  std::vector<float> weights{};
};

Outcome run(std::vector<float> logits, std::vector<std::int32_t> labels, float smoothing,
            std::int64_t valid, Partners partners = {}) {
  AnyContext context(std::in_place_type<CpuContext>, 1);
  const auto batch = static_cast<std::int64_t>(labels.size());
  const Shape shape{batch, static_cast<std::int64_t>(logits.size()) / batch};
  Outcome outcome{.sums = {}, .gradient = std::vector<float>(logits.size(), NAN)};
  Targets targets{Tensor(labels.data(), {batch}, DType::i32)};
  if (!partners.labels.empty()) {
    targets.second_labels = Tensor(partners.labels.data(), {batch}, DType::i32);
    targets.weights = Tensor(partners.weights.data(), {batch});
  }
  outcome.sums = softmax_cross_entropy(context, Tensor(logits.data(), shape), targets, smoothing,
                                       valid, Tensor(outcome.gradient.data(), shape), nullptr);
  return outcome;
}

/// -sum over k of q_k log softmax_k, summed over the first `valid` samples, in long double.
double loss_by_definition(const std::vector<double>& logits,
                          const std::vector<std::int32_t>& labels, double smoothing,
                          std::size_t valid, const Partners& partners = {}) {
  const auto one_hot = [&](std::size_t n, std::size_t k) {
    const long double first = static_cast<std::size_t>(labels[n]) == k ? 1.0L : 0.0L;
    if (partners.labels.empty()) return first;
    const long double second = static_cast<std::size_t>(partners.labels[n]) == k ? 1.0L : 0.0L;
    const auto weight = static_cast<long double>(partners.weights[n]);
    return weight * first + (1.0L - weight) * second;
  };
  const std::size_t classes = logits.size() / labels.size();
  long double loss = 0.0L;
  for (std::size_t n = 0; n < valid; ++n) {
    long double total = 0.0L;
    for (std::size_t k = 0; k < classes; ++k) {
      total += std::exp(static_cast<long double>(logits[n * classes + k]));
    }
    for (std::size_t k = 0; k < classes; ++k) {
      const long double q =
          (1.0L - smoothing) * one_hot(n, k) + smoothing / static_cast<long double>(classes);
      loss -= q * (static_cast<long double>(logits[n * classes + k]) - std::log(total));
    }
  }
  return static_cast<double>(loss);
}

struct Drawn {
  std::vector<float> logits;
  std::vector<double> exact;
  std::vector<std::int32_t> labels;
};

Drawn draw(std::size_t batch, std::size_t classes) {
  RandomStream random(3, "logits");
  Drawn drawn;
  for (std::size_t i = 0; i < batch * classes; ++i) {
    drawn.logits.push_back(2.0F * random.normal());
    drawn.exact.push_back(static_cast<double>(drawn.logits.back()));
  }
  for (std::size_t n = 0; n < batch; ++n) {
    drawn.labels.push_back(static_cast<std::int32_t>(random.below(classes)));
  }
  return drawn;
}

TEST(SoftmaxCrossEntropy, LossIsTheDefinitions) {
  for (const float smoothing : {0.0F, 0.1F, 1.0F}) {
    for (const std::int64_t valid : {0, 3, 5}) {
      const Drawn drawn = draw(5, 7);
      const Outcome outcome = run(drawn.logits, drawn.labels, smoothing, valid);
      EXPECT_NEAR(outcome.sums.loss,
                  loss_by_definition(drawn.exact, drawn.labels, static_cast<double>(smoothing),
                                     static_cast<std::size_t>(valid)),
                  1e-9);
      EXPECT_EQ(outcome.sums.samples, valid);
    }
  }
}

TEST(SoftmaxCrossEntropy, GradientIsTheDerivativeOfTheMeanOverTheBatch) {
  const auto smoothing = static_cast<double>(0.1F);
  Drawn drawn = draw(4, 6);
  const Outcome outcome = run(drawn.logits, drawn.labels, 0.1F, 3);
  for (std::size_t i = 0; i < drawn.exact.size(); ++i) {
    const double kept = drawn.exact[i];
    drawn.exact[i] = kept + 1e-5;
    const double above = loss_by_definition(drawn.exact, drawn.labels, smoothing, 3);
    drawn.exact[i] = kept - 1e-5;
    const double below = loss_by_definition(drawn.exact, drawn.labels, smoothing, 3);
    drawn.exact[i] = kept;
    EXPECT_NEAR(static_cast<double>(outcome.gradient[i]), (above - below) / 2e-5 / 4.0, 1e-7) << i;
  }
}

/// Labels that are the same, weights at both ends, at one half and between.
const Partners mixed{.labels = {3, 0, 5, 2, 1, 4},
                     .weights = {0.25F, 0.0F, 1.0F, 0.5F, 0.875F, 0.3F}};

TEST(SoftmaxCrossEntropy, MixedLossIsTheDefinitions) {
  Drawn drawn = draw(6, 7);
  drawn.labels = {3, 1, 2, 4, 0, 6};
  for (const float smoothing : {0.0F, 0.1F, 1.0F}) {
    for (const std::int64_t valid : {2, 6}) {
      EXPECT_NEAR(run(drawn.logits, drawn.labels, smoothing, valid, mixed).sums.loss,
                  loss_by_definition(drawn.exact, drawn.labels, static_cast<double>(smoothing),
                                     static_cast<std::size_t>(valid), mixed),
                  1e-9);
    }
  }
}

TEST(SoftmaxCrossEntropy, MixedGradientIsTheDerivative) {
  Drawn drawn = draw(6, 7);
  drawn.labels = {3, 1, 2, 4, 0, 6};
  for (const float rate : {0.0F, 0.1F}) {
    const auto smoothing = static_cast<double>(rate);
    const Outcome outcome = run(drawn.logits, drawn.labels, rate, 6, mixed);
    for (std::size_t i = 0; i < drawn.exact.size(); ++i) {
      const double kept = drawn.exact[i];
      drawn.exact[i] = kept + 1e-5;
      const double above = loss_by_definition(drawn.exact, drawn.labels, smoothing, 6, mixed);
      drawn.exact[i] = kept - 1e-5;
      const double below = loss_by_definition(drawn.exact, drawn.labels, smoothing, 6, mixed);
      drawn.exact[i] = kept;
      EXPECT_NEAR(static_cast<double>(outcome.gradient[i]), (above - below) / 2e-5 / 6.0, 1e-7)
          << i;
    }
  }
}

TEST(SoftmaxCrossEntropy, MixedWithItselfHasTheSameBits) {
  const Drawn drawn = draw(6, 7);
  const Outcome plain = run(drawn.logits, drawn.labels, 0.1F, 6);
  const Outcome itself =
      run(drawn.logits, drawn.labels, 0.1F, 6, {.labels = drawn.labels, .weights = mixed.weights});
  EXPECT_EQ(itself.sums.loss, plain.sums.loss);
  EXPECT_EQ(itself.gradient, plain.gradient);
}

TEST(SoftmaxCrossEntropy, CountsAgainstTheLabelOfTheLargerWeight) {
  const auto right = [](float weight, std::int32_t first, std::int32_t second) {
    return run({9, 0, 8}, {first}, 0.0F, 1, {.labels = {second}, .weights = {weight}}).sums.top1;
  };
  EXPECT_EQ(right(0.6F, 0, 2), 1);
  EXPECT_EQ(right(0.4F, 0, 2), 0);
  EXPECT_EQ(right(0.4F, 2, 0), 1);
  EXPECT_EQ(right(0.5F, 0, 2), 1) << "equal weights: the first label";
  EXPECT_EQ(right(0.5F, 2, 0), 0);
}

TEST(SoftmaxCrossEntropy, MinusInfinityExcludesAClassOfNoWeight) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float weight : {0.0F, 1.0F}) {
    const std::int32_t first = weight == 1.0F ? 0 : 1;
    const Outcome outcome =
        run({0, -infinity, 0}, {first}, 0.0F, 1, {.labels = {1 - first}, .weights = {weight}});
    EXPECT_NEAR(outcome.sums.loss, std::log(2.0), 1e-12);
    EXPECT_EQ(outcome.gradient[1], 0.0F);
  }
}

TEST(SoftmaxCrossEntropy, PaddingSamplesGetNoGradientAndTheirLabelsAreNotRead) {
  const Outcome outcome = run({1, 2, 3, 4, 5, 6}, {1, -7}, 0.0F, 1);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(outcome.gradient[i], 0.0F);
  EXPECT_EQ(outcome.sums.samples, 1);
}

TEST(SoftmaxCrossEntropy, GradientMayBeLeftOut) {
  AnyContext context(std::in_place_type<CpuContext>, 1);
  std::vector<float> logits{0.0F, 0.0F};
  std::int32_t label = 1;
  const LossSums sums =
      softmax_cross_entropy(context, Tensor(logits.data(), {1, 2}),
                            {Tensor(&label, {1}, DType::i32)}, 0.0F, 1, Tensor(), nullptr);
  EXPECT_NEAR(sums.loss, std::log(2.0), 1e-12);
}

TEST(SoftmaxCrossEntropy, EqualLogitsAreRankedByIndex) {
  EXPECT_EQ(run({2, 2, 2}, {0}, 0.0F, 1).sums.top1, 1);
  EXPECT_EQ(run({2, 2, 2}, {1}, 0.0F, 1).sums.top1, 0);
  const std::vector<float> seven(7, 1.0F);
  EXPECT_EQ(run(seven, {4}, 0.0F, 1).sums.top5, 1);
  EXPECT_EQ(run(seven, {5}, 0.0F, 1).sums.top5, 0);
}

TEST(SoftmaxCrossEntropy, CountsTop1AndTop5) {
  const LossSums sums =
      run({9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5, 4, 3}, {0, 4, 5}, 0.0F, 3).sums;
  EXPECT_EQ(sums.top1, 1);
  EXPECT_EQ(sums.top5, 2);
}

TEST(SoftmaxCrossEntropy, NanOfTheLabelIsAMissAlsoBelowFiveClasses) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const LossSums sums = run({1, nan, 0}, {1}, 0.0F, 1).sums;
  EXPECT_EQ(sums.top1, 0);
  EXPECT_EQ(sums.top5, 0);
  EXPECT_TRUE(std::isnan(sums.loss));
  EXPECT_EQ(run({1, nan, 0}, {0}, 0.0F, 1).sums.top1, 0);
}

TEST(SoftmaxCrossEntropy, HugeLogitsNeitherOverflowNorVanish) {
  const Outcome outcome = run({3e38F, -3e38F, 0, 1e30F, 1e30F, -1e30F}, {0, 1}, 0.0F, 2);
  EXPECT_NEAR(outcome.sums.loss, std::log(2.0), 1e-12);
  const std::vector<float> wanted{0, 0, 0, 0.25F, -0.25F, 0};
  EXPECT_EQ(outcome.gradient, wanted);
}

TEST(SoftmaxCrossEntropy, MinusInfinityExcludesAClass) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Outcome outcome = run({0, -infinity, 0}, {0}, 0.0F, 1);
  EXPECT_NEAR(outcome.sums.loss, std::log(2.0), 1e-12);
  EXPECT_EQ(outcome.gradient[1], 0.0F);
}

TEST(SoftmaxCrossEntropy, LabelsOutOfRangeAreErrors) {
  const auto message = [](std::int32_t label) {
    return message_of<Error>([label] { run({1, 2, 3}, {label}, 0.0F, 1); });
  };
  EXPECT_NE(message(3).find("label 3 of 3 classes"), std::string::npos) << message(3);
  EXPECT_NE(message(-1).find("label -1 of 3 classes"), std::string::npos) << message(-1);
  const auto mixed_message = [](std::int32_t label, float weight) {
    return message_of<Error>([&] {
      run({1, 2, 3}, {0}, 0.0F, 1, {.labels = {label}, .weights = {weight}});
    });
  };
  EXPECT_NE(mixed_message(3, 0.5F).find("label 3 of 3 classes"), std::string::npos);
  EXPECT_NE(mixed_message(1, 1.5F).find("a label's weight of 1.5"), std::string::npos);
  EXPECT_NE(mixed_message(1, NAN).find("a label's weight of nan"), std::string::npos);
}

TEST(SoftmaxCrossEntropy, ShapesThatDoNotFitAreErrors) {
  AnyContext context(std::in_place_type<CpuContext>, 1);
  std::vector<float> logits(6);
  std::vector<std::int32_t> labels(3);
  const Tensor two_rows(logits.data(), {2, 3});
  const Tensor three(labels.data(), {3}, DType::i32);
  const Tensor two(labels.data(), {2}, DType::i32);
  const Tensor weights(logits.data(), {2});
  const Tensor none;
  const auto loss = [&](const Targets& targets, std::int64_t valid, const Tensor& gradient) {
    softmax_cross_entropy(context, two_rows, targets, 0.0F, valid, gradient, nullptr);
  };
  EXPECT_THROW(loss({three}, 2, none), Error);
  EXPECT_THROW(loss({two}, 3, none), Error);
  EXPECT_THROW(loss({two}, -1, none), Error);
  EXPECT_THROW(loss({two}, 2, Tensor(logits.data(), {3, 2})), Error);
  EXPECT_THROW(loss({two, two}, 2, none), Error);
  EXPECT_THROW(loss({two, none, weights}, 2, none), Error);
  EXPECT_THROW(loss({two, three, weights}, 2, none), Error);
  EXPECT_THROW(loss({two, two, Tensor(logits.data(), {1})}, 2, none), Error);
  EXPECT_NO_THROW(loss({two, two, weights}, 2, none));
}

}  // namespace
}  // namespace tandem
