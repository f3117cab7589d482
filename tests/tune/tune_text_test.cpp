#include "tune/tune_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tune/made_up.h"

namespace tandem {
namespace {

TuneResult example(bool other_is_better) {
  MadeUpMachine machine;
  machine.one_batch = [=](const Candidate& candidate) {
    if (candidate.placement.ranks_per_device == 1) return 1000.0;
    return candidate == folded(4) && other_is_better ? 1250.0 : 900.0;
  };
  machine.problem = [](const Candidate& candidate) {
    return candidate == processes(8) ? "out of memory on it" : "";
  };
  SearchLimits limits = ample_limits;
  limits.seconds = machine.run_seconds * (7 + 9 + 1);  // for the seven counts and three rounds
  return machine.search(limits);
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(TuneText, SaysChoiceAndGain) {
  const std::string better = tune_text(example(true));
  expect_part(better, "on 1 x made-up GPU");
  expect_part(better, "choice: 4 folded, 1 worker\nit gains +25.0 % over one rank");
  expect_part(better, "does not fit: out of memory on it");
  expect_part(better, "left out: 2 processes of 50 %");
  EXPECT_EQ(better.find("(*"), std::string::npos) << "no share was measured";
  const std::string one = tune_text(example(false));
  expect_part(one, "choice: one rank, 1 worker\nthe best other one of those measured again, ");
  expect_part(one, "gains -10.0 % over it");
}

TEST(TuneText, MarksSharesWithBorrowedKernels) {
  TuneResult result = example(true);
  Row& row = result.rows.emplace_back(Row{.candidate = processes(2, 50)});
  row.runs = {{.training = 100.0, .one_batch = 110.0, .borrowed_kernels = true}};
  const std::string text = tune_text(result);
  expect_part(text, "2 processes of 50 %, 1 worker each * ");
  expect_part(text, "(* with the whole GPU's kernels");
  const auto borrowed = [&] {
    const auto json = nlohmann::json::parse(tune_json(ample_limits, result, std::nullopt));
    return json["rows"].back()["runs"][0]["borrowed_kernels"].get<bool>();
  };
  EXPECT_TRUE(borrowed());
  row.runs[0].borrowed_kernels = false;
  EXPECT_FALSE(borrowed());
  row.runs[0].borrowed_kernels = true;
  row.final_runs = {{.training = 100.0, .one_batch = 110.0}};
  EXPECT_EQ(tune_text(result).find('*'), std::string::npos) << "its own count";
}

TEST(TuneText, ARowHasMedianAndRange) {
  Row row{.candidate = processes(4, 50, 2)};
  for (const double rate : {10.0, 30.0, 20.0}) {
    row.final_runs.push_back({.training = rate, .one_batch = 2 * rate, .device_bytes = 1 << 29});
  }
  row.runs.push_back({.training = 99.0});
  const std::string text = row_text(row);
  for (const char* part : {"4 processes of 50 %, 2 workers each", " 20.0 ", "10.0 to 30.0",
                           " 40.0 ", "0.50 GiB", " 3"}) {
    expect_part(text, part);
  }
  EXPECT_NEAR(row.spread(), 1.0, 1e-12);
  EXPECT_EQ(text.size(), row_heading().size()) << "columns lie below their heads";
}

TEST(TuneText, ARunThatWasCutOffHasNotFailed) {
  MadeUpMachine machine;
  machine.more_seconds = [](const Candidate& candidate) {
    return candidate == folded(4) ? 1e6 : 0.0;
  };
  machine.problem = [](const Candidate& candidate) {
    return candidate == processes(8) ? "no such luck" : "";
  };
  const TuneResult result = machine.search(ample_limits);
  expect_part(tune_text(result), "not done in time: took too long\n");
  expect_part(tune_text(result), "failed: no such luck\n");
  const std::string json = tune_json(ample_limits, result, std::nullopt);
  expect_part(json, "\"timed_out\": true");
}

TEST(TuneText, WhereNothingWasMeasuredAgainItSaysWhatIsCompared) {
  TuneResult result = example(false);
  for (Row& row : result.rows) row.final_runs.clear();
  expect_part(tune_text(result), "\nthe best other one of the fastest on one batch, ");
  expect_part(tune_text(result), "\nboth of single runs at different moments: ");
  expect_part(tune_json(ample_limits, result, std::nullopt), "\"measured_in_turns\": false");
}

TEST(TuneText, SaysWhyAChoiceIsNotSureEnoughToKeep) {
  TuneResult result = example(true);
  EXPECT_EQ(why_not_kept(result), "");
  EXPECT_EQ(tune_text(result).find("single runs"), std::string::npos);
  expect_part(tune_json(ample_limits, result, std::nullopt), "\"measured_in_turns\": true");
  result.rows.at(*result.best_other).final_runs.clear();
  EXPECT_EQ(why_not_kept(result), "nothing was measured in turns");
  result.one_rank.reset();  // it does not fit, so that the other one is what there is
  EXPECT_EQ(why_not_kept(result), "");
  result.best_other.reset();
  EXPECT_EQ(why_not_kept(result), "nothing stood against it");
  result.left_out.clear();
  EXPECT_EQ(why_not_kept(result), "");
  result.rows.back().timed_out = true;
  EXPECT_EQ(why_not_kept(result), "nothing stood against it") << "it was not done in time";
}

TEST(TuneText, TellsOfRunsThatTheOnlyRoundContradicts) {
  TuneResult result = example(true);
  EXPECT_EQ(tune_text(result).find("one round"), std::string::npos) << "there were three";
  Row& one = result.rows.at(*result.one_rank);
  one.final_runs.resize(1);
  expect_part(tune_text(result),
              "one round in turns; in the runs before it the other gains +25.0 %\n");
  EXPECT_EQ(why_not_kept(result), "");
  one.runs[0].training = 1300.0;
  expect_part(tune_text(result), "the other gains -3.8 %, so one rank stays\n");
  one.runs[0].training = 1000.0;
  one.final_runs[0].training = 100.0;
  EXPECT_EQ(why_not_kept(result), "the only round in turns contradicts the runs before it");
  const auto json = nlohmann::json::parse(tune_json(ample_limits, result, std::nullopt));
  EXPECT_NEAR(json["gain_before_only_round"].get<double>(), 0.25, 1e-9);
}

TEST(TuneText, ASingleRunHasTheRangeOfItsStretches) {
  Row row{.candidate = processes(4)};
  row.runs.push_back({.training = 1939.8, .one_batch = 2000.0, .range = 0.034});
  const std::string text = row_text(row);
  expect_part(text, " within 3.4 % ");
  EXPECT_EQ(text.find("1939.8 to"), std::string::npos) << text;
  EXPECT_EQ(text.size(), row_heading().size()) << "columns lie below their heads";
}

TEST(TuneJson, HasEverything) {
  const TuneResult result = example(true);
  const Sweep sweep{.rows = result.rows,
                    .best = 0,
                    .again = {result.rows[0], result.rows[1]},
                    .regret = 0.125,
                    .spread = 0.5};
  const auto json = nlohmann::json::parse(tune_json(ample_limits, result, sweep));
  EXPECT_EQ(json["choice"]["ranks_per_device"], 4);
  EXPECT_EQ(json["choice"]["colocation"], "folded");
  EXPECT_NEAR(json["gain"].get<double>(), 0.25, 1e-9);
  EXPECT_EQ(json["rows"].size(), result.rows.size());
  EXPECT_EQ(json["rows"][0]["final_runs"].size(), 3U);
  EXPECT_EQ(json["sweep"]["regret"], 0.125);
  expect_part(sweep_text(result, sweep), "12.5 % of the best's rate");
  EXPECT_FALSE(nlohmann::json::parse(tune_json(ample_limits, result, {})).contains("sweep"));
}

}  // namespace
}  // namespace tandem
