#include <gtest/gtest.h>

#include "bench/step_recorder.h"
#include "parallel/self_communicator.h"
#include "train/run_parts.h"
#include "train/small_run.h"

namespace tandem {
namespace {

std::vector<StepPart> parts_of(const std::vector<StepMoment>& moments) {
  std::vector<StepPart> parts;
  for (const StepMoment& moment : moments) {
    EXPECT_GE(moment.seconds, 0.0);
    parts.push_back(moment.part);
  }
  return parts;
}

TEST(StepMomentsTest, AStepTellsThemInOrder) {
  const RunConfig config = small_run("accumulate = 2\n");
  SelfCommunicator self;
  RunParts parts(config, self);
  const std::unique_ptr<StepRecorder> recorder = make_step_recorder(parts.context, 1000);
  const auto step = [&] {
    (void)parts.replica.step([&]() -> const Batch& { return *parts.loader.next(); }, 0.0F, false);
    (void)parts.replica.settle();
  };
  step();
  EXPECT_TRUE(recorder->last_step().empty()) << "nobody asked for them";
  parts.replica.observe(recorder.get());
  step();
  step();

  const std::size_t layers = parts.replica.graph().nodes().size();
  std::vector<StepPart> expected{StepPart::start};
  for (int micro = 0; micro < 2; ++micro) {
    expected.push_back(StepPart::input);
    expected.insert(expected.end(), layers, StepPart::layer);
    expected.push_back(StepPart::loss);
    expected.insert(expected.end(), layers, StepPart::layer);
  }
  expected.push_back(StepPart::reduction);
  expected.push_back(StepPart::update);
  EXPECT_EQ(parts_of(recorder->last_step()), expected);

  parts.replica.observe(nullptr);
  const std::vector<StepMoment> before = recorder->last_step();
  step();
  const std::vector<StepMoment> after = recorder->last_step();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after.back().seconds, before.back().seconds) << "it was told of a later step";
}

}  // namespace
}  // namespace tandem
