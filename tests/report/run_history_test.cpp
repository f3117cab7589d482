#include "report/run_history.h"

#include <cmath>

#include "base/error.h"
#include "report/run_folder.h"
#include "support/message.h"

namespace tandem {
namespace {

TEST_F(ReportTest, ReadsRecordsConfigAndEnvironment) {
  const RunHistory run = read_run(make_run(
      "a",
      start("one") + train(10, "1.5") + evaluation(10, "0.25") + start("two") + train(20, "null"),
      "[data]\nmean = [0.5, 1.5]\n[train]\nepochs = 3\nname = \"x\"\n"));
  EXPECT_EQ(run.name, "a");
  EXPECT_EQ(run.starts, 2);
  EXPECT_EQ(run.environment, (Facts{{"host", "two"}, {"ranks", "2"}}));
  ASSERT_EQ(run.train.size(), 2U);
  EXPECT_EQ(run.train[0].loss, 1.5);
  EXPECT_TRUE(std::isnan(run.train[1].loss));
  EXPECT_EQ(run.train[0].elapsed, 2.0);
  EXPECT_EQ(run.train[1].elapsed, 5.0);  // 2 s of training, 1 s of evaluation, 2 s of training
  ASSERT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.evaluations[0].top1, 0.25);
  EXPECT_EQ(run.config,
            (Facts{{"data.mean", "[ 0.5, 1.5 ]"}, {"train.epochs", "3"}, {"train.name", "'x'"}}));
  EXPECT_TRUE(run.notes.empty());
}

TEST_F(ReportTest, WhatAGpuDidNotTellIsNoNumber) {
  const RunHistory run = read_run(make_run(
      "a", train(10, "3") +
               train(20, "2",
                     R"("sm_activity": 0.75, "tensor_activity": "unavailable", )"
                     R"("dram_activity": 0.0, "energy_joules": 700.0, "gpu_seconds": 2.0, )")));
  ASSERT_EQ(run.train.size(), 2U);
  EXPECT_TRUE(std::isnan(run.train[0].sm_activity));
  EXPECT_TRUE(std::isnan(run.train[0].watts));
  EXPECT_EQ(run.train[1].sm_activity, 0.75);
  EXPECT_TRUE(std::isnan(run.train[1].tensor_activity));
  EXPECT_EQ(run.train[1].dram_activity, 0.0);
  EXPECT_EQ(run.train[1].watts, 350.0);
}

TEST_F(ReportTest, SkippedSamplesAddUp) {
  const RunHistory run = read_run(
      make_run("a", train(10, "3") + bad_samples(10, 2, 1) + bad_samples(10, 1, 2) +
                        train(30, "2") + bad_samples(30, 4, 2) + train(20, "1") +
                        bad_samples(20, 3, 2) + R"({"event": "bad_samples", "step": 25})" + "\n"));
  ASSERT_EQ(run.bad_samples.size(), 4U);
  EXPECT_EQ(run.bad_samples[1].step, 10);
  EXPECT_EQ(run.bad_samples[1].skipped, 3.0);
  EXPECT_EQ(run.bad_samples[2].step, 20) << "done again: what was recorded of step 30 is void";
  EXPECT_EQ(run.bad_samples[2].skipped, 6.0);
  EXPECT_EQ(run.bad_samples[2].distinct, 2.0);
  EXPECT_EQ(run.bad_samples[3].skipped, 6.0);
}

TEST_F(ReportTest, TheEndIsOfTheLastStart) {
  const std::string ended = start("h") + train(10, "3") + end("early_stop", 10, "no more");
  const RunHistory run = read_run(make_run("a", ended));
  ASSERT_TRUE(run.end.has_value());
  EXPECT_EQ(run.end->ending, "early_stop");
  EXPECT_EQ(run.end->step, 10);
  EXPECT_EQ(run.end->reason, "no more");
  EXPECT_FALSE(read_run(make_run("b", ended + start("h") + train(20, "2"))).end.has_value());
  // Without a step it is no record.
  EXPECT_EQ(read_run(make_run("c", train(1, "3") + "{\"event\": \"end\"}\n")).notes.size(), 1U);
}

TEST_F(ReportTest, LaterRecordsOfAStepSupersede) {
  const RunHistory run =
      read_run(make_run("a", train(10, "3") + train(20, "2") + train(30, "1") + train(20, "9")));
  ASSERT_EQ(run.train.size(), 2U);
  EXPECT_EQ(run.train[0].step, 10);
  EXPECT_EQ(run.train[1].loss, 9);
}

TEST_F(ReportTest, DamagedLinesAreNotedAndATornOneIsNot) {
  const RunHistory run = read_run(
      make_run("a", train(10, "3") + "rubbish\n[1]\n{\"event\": \"train\", \"step\": -4}\n" +
                        train(20, "\"text\"") + "{\"event\": \"tr"));
  EXPECT_EQ(run.train.size(), 2U);
  EXPECT_TRUE(std::isnan(run.train[1].loss));
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_NE(run.notes[0].find("metrics.jsonl:2: no record; 3 such lines are left out"),
            std::string::npos)
      << run.notes[0];
}

TEST_F(ReportTest, AMissingOrDamagedConfigIsNoted) {
  for (const std::string config : {"", "[train\nepochs = 3\n"}) {
    const RunHistory run = read_run(make_run(config.empty() ? "a" : "b", train(10, "3"), config));
    EXPECT_TRUE(run.config.empty());
    ASSERT_EQ(run.notes.size(), 1U);
    EXPECT_NE(run.notes[0].find("config.toml:"), std::string::npos) << run.notes[0];
  }
}

TEST_F(ReportTest, WhatIsNoRunIsNamedInOneLine) {
  const auto message = [](const std::filesystem::path& folder) {
    return message_of<InputError>([&] { static_cast<void>(read_run(folder)); });
  };
  EXPECT_NE(message(folder_ / "no").find("no/metrics.jsonl: no such file"), std::string::npos);
  EXPECT_NE(message(make_run("a", "")).find("a/metrics.jsonl: no record"), std::string::npos);
  EXPECT_NE(message(make_run("b", "{}\nx\n")).find("the file is damaged"), std::string::npos);
}

TEST_F(ReportTest, SeveralRunsHaveDistinctNames) {
  const std::filesystem::path a = make_run("a/out", train(1, "1"));
  const std::filesystem::path b = make_run("b/out", train(1, "1"));
  const std::filesystem::path c = make_run("c", train(1, "1"));
  const std::vector<RunHistory> same = read_runs(std::vector{a, b});
  EXPECT_EQ(same[0].name, a.string());
  EXPECT_EQ(same[1].name, b.string());
  EXPECT_EQ(read_runs(std::vector{a, c})[0].name, "out");
  EXPECT_NE(message_of<InputError>([&] {
              static_cast<void>(read_runs(std::vector{a, a / ""}));
            }).find("given twice"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
