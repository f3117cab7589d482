#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "device/kernel_choices.h"
#include "device/open_context.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "graph/step_plan_choice.h"
#include "support/lent_choices.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

/// A small model's step on a GPU for which nothing has been chosen yet.
class StepPlanChoice : public testing::Test {
 protected:
  explicit StepPlanChoice(const std::string& model = "resnet8", std::int64_t size = 32)
      : graph_(fuse(load_model(find_model(model), {.classes = 10, .size = size}))) {
    store_.initialize(1);
  }
  void SetUp() override {
    if (!times_steps(std::get<CudaContext>(context_))) GTEST_SKIP() << "TANDEM_TUNE times nothing";
  }

  static StepPlanOptions options_of(std::int64_t batch,
                                    NormDeferral deferral = NormDeferral::by_size) {
    return {.batch = batch,
            .training = true,
            .precision = Precision::bf16,
            .side_work = SideWork::by_timing,
            .norm_deferral = deferral};
  }
  std::unique_ptr<StepPlan> make(std::int64_t batch = 16,
                                 NormDeferral deferral = NormDeferral::by_size) {
    return make_step_plan(graph_, store_, context_, options_of(batch, deferral));
  }
  KernelChoices& choices() { return *kernel_choices(context_); }

  /// The keys under which choices of steps are kept.
  std::vector<std::string> keys_of_steps() {
    std::vector<std::string> keys;
    std::istringstream lines(choices().text());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("step of ")) keys.push_back(line.substr(0, line.find('\t')));
    }
    return keys;
  }

  std::vector<float> statistics() {
    return copy_of(HostTensor(context_, store_.all_buffers()).tensor());
  }

 private:
  // Before the context, which opens the file of choices.
  TemporaryFolder folder_;
  ScopedVariable cache_{"TANDEM_CACHE_DIR", folder_.path().c_str()};

 protected:
  AnyContext context_{std::in_place_type<CudaContext>, 0};
  const Graph graph_;
  ParameterStore store_{graph_, context_, true, {}, Precision::bf16};
};

TEST_F(StepPlanChoice, IsMadeOnceAndLeavesTheStatistics) {
  const std::vector<float> before = statistics();
  const std::size_t layers = make()->side_layers();
  ASSERT_EQ(keys_of_steps().size(), 1U);
  const std::size_t made = choices().made();
  EXPECT_EQ(statistics(), before);
  EXPECT_EQ(make()->side_layers(), layers);
  EXPECT_EQ(choices().made(), made);
  (void)make(24);  // another step
  EXPECT_EQ(keys_of_steps().size(), 2U);
}

TEST_F(StepPlanChoice, IsWhatWasKept) {
  (void)make();
  ASSERT_EQ(keys_of_steps().size(), 1U);
  const std::string key = keys_of_steps().front();
  choices().record(key, "weight gradients in line, normalisations left by size");
  EXPECT_EQ(make()->side_layers(), 0U);
  {
    const ScopedVariable off("TANDEM_TUNE", "off");
    EXPECT_GT(make()->side_layers(), 0U) << "by size";
  }
  choices().record(key, "weight gradients beside backward, normalisations left by size");
  EXPECT_GT(make()->side_layers(), 0U);
}

TEST_F(StepPlanChoice, IsBorrowedWithoutBeingKept) {
  (void)make();
  const std::string key = keys_of_steps().front();
  const CudaDevice& device = std::get<CudaContext>(context_).device();
  const TemporaryFolder folder;
  const ScopedVariable cache("TANDEM_CACHE_DIR", folder.path().c_str());
  const ScopedVariable borrow("TANDEM_TUNE", "borrow");
  for (const bool aside : {true, false}) {
    lend(device, {{key, fmt::format("weight gradients {}, normalisations left by size",
                                    aside ? "beside backward" : "in line")}});
    AnyContext context{std::in_place_type<CudaContext>, 0};
    ParameterStore store{graph_, context, true, {}, Precision::bf16};
    store.initialize(1);
    const auto plan = make_step_plan(graph_, store, context, options_of(16));
    EXPECT_EQ(plan->side_layers() > 0, aside);
    kernel_choices(context)->flush();
    EXPECT_EQ(kept(device).find(key), std::string::npos);
  }
}

/// Of a model whose large layers leave normalisations to their readers.
class StepPlanChoiceOfReaders : public StepPlanChoice {
 protected:
  StepPlanChoiceOfReaders() : StepPlanChoice("mobilenet_v2", 64) {}

  std::unique_ptr<StepPlan> make() { return StepPlanChoice::make(32, NormDeferral::by_timing); }
  static std::ptrdiff_t left(const StepPlan& plan) {
    return std::ranges::count(plan.deferred_norms(), true);
  }
};

TEST_F(StepPlanChoiceOfReaders, IsWhatWasKept) {
  (void)make();
  ASSERT_EQ(keys_of_steps().size(), 1U);
  const std::string key = keys_of_steps().front();
  for (const bool aside : {true, false}) {
    for (const bool by_size : {true, false}) {
      choices().record(key, fmt::format("weight gradients {}, normalisations left {}",
                                        aside ? "beside backward" : "in line",
                                        by_size ? "by size" : "for memory only"));
      const auto plan = make();
      EXPECT_EQ(plan->side_layers() > 0, aside);
      EXPECT_EQ(left(*plan) > 0, by_size);
    }
  }
  choices().record(key, "a way of another build");
  const auto plan = make();
  EXPECT_GT(plan->side_layers(), 0U);
  EXPECT_GT(left(*plan), 0);
}

TEST_F(StepPlanChoice, GoesBySizeWhereAnotherWayLeavesTooLittleForWhatRunsIt) {
  (void)make();
  const std::string key = keys_of_steps().front();
  choices().record(key, "weight gradients in line, normalisations left by size");
  StepPlanOptions options = options_of(16);
  options.room = std::size_t{1} << 40U;
  EXPECT_EQ(make_step_plan(graph_, store_, context_, options)->side_layers(), 0U);
  options.reserve = *options.room;
  EXPECT_GT(make_step_plan(graph_, store_, context_, options)->side_layers(), 0U);
}

TEST_F(StepPlanChoice, GoesBySizeWhereNothingIsTimed) {
  const ScopedVariable off("TANDEM_TUNE", "off");
  EXPECT_GT(make()->side_layers(), 0U);
  EXPECT_TRUE(keys_of_steps().empty());
}

TEST_F(StepPlanChoice, TimesAStepOfMoreSamplesAsALongerOne) {
  int waits = 0;
  const auto seconds = [&](std::int64_t batch) {
    const auto plan = make(batch);
    return time_step(std::get<CudaContext>(context_), graph_, context_, *plan, [&] { ++waits; });
  };
  const double few = seconds(16);
  EXPECT_GT(few, 1e-5);
  EXPECT_GT(seconds(4096), 2.0 * few);
  EXPECT_GT(waits, 10);
}

}  // namespace
}  // namespace tandem
