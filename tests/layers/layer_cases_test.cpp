#include "layers/layer_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/kernel_run.h"
#include "layers/reference.h"
#include "layers/registry.h"

namespace tandem {
namespace {

TEST(LayerCases, EveryKindHasARow) {
  for (const LayerKind& kind : layer_kinds()) {
    EXPECT_TRUE(std::ranges::any_of(layer_cases(),
                                    [&](const LayerCase& row) { return row.kind == kind.name; }))
        << kind.name << " has no row in layer_cases.cpp";
  }
}

DoubleTensor to_double(const Shape& shape, const std::vector<float>& values) {
  DoubleTensor made(shape);
  std::ranges::copy(values, made.data.begin());
  return made;
}

Reference make_reference(const LayerCase& row, const Layer& layer, const KernelData& data,
                         bool training) {
  Reference reference{.training = training, .groups = static_cast<std::size_t>(row.groups)};
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    reference.inputs.push_back(to_double(row.inputs[i], data.inputs[i]));
  }
  const auto specs = layer.parameters(row.inputs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    reference.parameters.push_back(to_double(specs[i].shape, data.parameters[i]));
  }
  for (const std::vector<float>& buffer : data.buffers) {
    reference.buffers.push_back(to_double({static_cast<std::int64_t>(buffer.size())}, buffer));
  }
  return reference;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& wanted,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1.0;
  for (const double value : wanted) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    // A comparison that a NaN fails.
    ASSERT_TRUE(std::fabs(static_cast<double>(got[i]) - wanted[i]) <= tolerance * largest)
        << what << "[" << i << "] is " << got[i] << ", not " << wanted[i];
  }
}

class LayerCaseTest : public testing::TestWithParam<LayerCase> {
 protected:
  const LayerCase& row() const { return GetParam(); }
  /// With all input gradients.
  KernelMode mode(bool training = true) const {
    return {.training = training,
            .groups = row().groups,
            .wanted = std::vector<bool>(row().inputs.size(), true)};
  }

  LayerPtr layer_ = make_layer(GetParam());
  KernelData data_ = make_data(GetParam(), *layer_);
  ConfigTable keys_ = ConfigTable::from_text(GetParam().keys, "keys");
};

TEST_P(LayerCaseTest, ForwardIsTheReferences) {
  for (const bool training : {true, false}) {
    Reference reference = make_reference(row(), *layer_, data_, training);
    const DoubleTensor wanted = reference.forward(row().kind, keys_);
    ASSERT_EQ(layer_->output_shape(row().inputs), wanted.shape);
    for (const int threads : {1, 2}) {
      KernelMode how = mode(training);
      how.threads = threads;
      const KernelResult got = run_kernel(*layer_, data_, how);
      expect_close(got.output, wanted.data, row().tolerance, training ? "training" : "evaluation");
      for (std::size_t i = 0; i < got.buffers.size(); ++i) {
        expect_close(got.buffers[i], reference.buffers[i].data, 1e-5, "running statistics");
      }
      if (!training) {
        EXPECT_EQ(got.buffers, data_.buffers);
      }
      EXPECT_TRUE(got.guards_intact);
      EXPECT_TRUE(got.inputs_untouched);
    }
  }
}

/// The loss is the output projected on the gradient that backward got. Its derivative after one
/// element is a central difference of the reference; kinks (ReLU, maximum) show in the second
/// difference, and such elements are left out.
class GradientChecker {
 public:
  GradientChecker(const LayerCase& row, const KernelData& data, const ConfigTable& keys,
                  Reference reference)
      : row_(row), data_(data), keys_(keys), reference_(std::move(reference)) {}

  void check(std::vector<DoubleTensor> Reference::*tensors, std::size_t index,
             const std::vector<float>& analytic, const std::string& what) {
    constexpr std::size_t most_elements = 48;
    constexpr double step = 1e-6;
    const std::size_t count = analytic.size();
    const std::size_t tried = std::min(count, most_elements);
    double largest = 1.0;
    for (const float value : analytic) {
      largest = std::max(largest, std::fabs(static_cast<double>(value)));
    }
    const double here = loss();
    std::size_t kinks = 0;
    for (std::size_t t = 0; t < tried; ++t) {
      const std::size_t i = tried == count ? t : t * (count - 1) / (tried - 1);
      double& element = (reference_.*tensors)[index].data[i];
      const double kept = element;
      element = kept + step;
      const double above = loss();
      element = kept - step;
      const double below = loss();
      element = kept;
      if (std::fabs(above - 2.0 * here + below) > 1e-4 * step * largest) {
        ++kinks;
        continue;
      }
      const double numeric = (above - below) / (2.0 * step);
      ASSERT_TRUE(std::fabs(static_cast<double>(analytic[i]) - numeric) <=
                  10.0 * row_.tolerance * largest)
          << what << "[" << i << "] is " << analytic[i] << ", not " << numeric;
    }
    EXPECT_LE(kinks, tried / 8) << what;
  }

 private:
  double loss() {
    Reference copy = reference_;
    const DoubleTensor y = copy.forward(row_.kind, keys_);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      sum += y.data[i] * static_cast<double>(data_.output_gradient[i]);
    }
    return sum;
  }

  const LayerCase& row_;
  const KernelData& data_;
  const ConfigTable& keys_;
  Reference reference_;
};

TEST_P(LayerCaseTest, BackwardIsTheDerivative) {
  for (const int threads : {1, 2}) {
    KernelMode how = mode();
    how.threads = threads;
    const KernelResult got = run_kernel(*layer_, data_, how);
    EXPECT_TRUE(got.guards_intact);
    EXPECT_TRUE(got.inputs_untouched);
    GradientChecker checker(row(), data_, keys_, make_reference(row(), *layer_, data_, true));
    for (std::size_t i = 0; i < got.input_gradients.size(); ++i) {
      ASSERT_EQ(got.input_gradients[i].size(), data_.inputs[i].size());
      checker.check(&Reference::inputs, i, got.input_gradients[i], "input gradient");
    }
    for (std::size_t i = 0; i < got.parameter_gradients.size(); ++i) {
      ASSERT_EQ(got.parameter_gradients[i].size(), data_.parameters[i].size());
      checker.check(&Reference::parameters, i, got.parameter_gradients[i], "parameter gradient");
    }
  }
}

// A fault in a layer must reach the loss, where it is seen: max(0, NaN) and the like may give
// either.
TEST_P(LayerCaseTest, PassesNanOn) {
  for (std::vector<float>& input : data_.inputs) {
    std::ranges::fill(input, std::numeric_limits<float>::quiet_NaN());
  }
  const KernelResult got = run_kernel(*layer_, data_, mode());
  // The maximum of NaNs alone is the lowest number in oneDNN, which the following layers show.
  const float lowest = row().kind == "max_pool" ? -3e38F : -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::ranges::all_of(
      got.output, [&](float value) { return std::isfinite(value) && value > lowest; }));
}

TEST_P(LayerCaseTest, WorksWhereInputGradientsAreNotWanted) {
  const KernelResult all = run_kernel(*layer_, data_, mode());
  for (unsigned mask = 0; mask + 1 < 1U << row().inputs.size(); ++mask) {
    KernelMode how = mode();
    for (std::size_t i = 0; i < row().inputs.size(); ++i) how.wanted[i] = (mask >> i & 1U) != 0;
    const KernelResult some = run_kernel(*layer_, data_, how);
    EXPECT_EQ(some.parameter_gradients, all.parameter_gradients);
    EXPECT_TRUE(some.guards_intact);
    for (std::size_t i = 0; i < how.wanted.size(); ++i) {
      if (how.wanted[i]) {
        EXPECT_EQ(some.input_gradients[i], all.input_gradients[i]);
      }
    }
  }
}

TEST_P(LayerCaseTest, AddsToGradientsWhereItSaysSo) {
  const std::vector<bool> adds =
      inputs_added_to(*layer_, AnyContext(std::in_place_type<CpuContext>, 1));
  if (std::ranges::find(adds, true) == adds.end()) return;
  const KernelResult own = run_kernel(*layer_, data_, mode());
  KernelMode how = mode();
  how.adds = adds;
  const KernelResult sum = run_kernel(*layer_, data_, how);
  EXPECT_TRUE(sum.guards_intact);
  for (std::size_t i = 0; i < own.input_gradients.size(); ++i) {
    const std::vector<float> before = gradient_before(own.input_gradients[i].size());
    for (std::size_t e = 0; e < before.size(); ++e) {
      const float added_to = adds[i] ? before[e] : 0.0F;
      EXPECT_NEAR(sum.input_gradients[i][e], added_to + own.input_gradients[i][e], 1e-5F);
    }
  }
}

TEST_P(LayerCaseTest, DoesNotDependOnWhatMemoryHeld) {
  for (const int threads : {1, 2}) {
    for (const bool training : {true, false}) {
      KernelMode how = mode(training);
      how.threads = threads;
      const KernelResult nans = run_kernel(*layer_, data_, how);
      how.content = 0;
      EXPECT_EQ(run_kernel(*layer_, data_, how), nans);
      how.content = 0x3f;
      EXPECT_EQ(run_kernel(*layer_, data_, how), nans);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LayerCaseTest, testing::ValuesIn(layer_cases()),
                         [](const testing::TestParamInfo<LayerCase>& test) {
                           return test.param.kind + "_" + test.param.name;
                         });

}  // namespace
}  // namespace tandem
