#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/tune_run.h"
#include "train/host_memory_need.h"

// tandem tune on a host whose memory, made up (made_up_memory.cpp), holds one process but not two.

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

/// Weights that take far more than what is computed with them.
constexpr const char* wide_model = R"([[node]]
name = "pool"
op = "global_average_pool"
[[node]]
name = "fc1"
op = "linear"
out = 1024
[[node]]
name = "relu1"
op = "relu"
[[node]]
name = "fc2"
op = "linear"
out = 1024
[[node]]
name = "fc3"
op = "classifier"
)";

class TuneInMemory : public TuneRun {
 protected:
  TuneInMemory() { write_file(path("wide.toml"), wide_model); }

  /// Each process holds all weights.
  std::vector<std::string> settings() const {
    return {"model.name=" + path("wide.toml").string(), "parallel.shared_state=false"};
  }

  std::size_t need_of(int processes) const {
    ConfigTable table = ConfigTable::from_file(path("run.toml"));
    for (const std::string& setting : settings()) table.override_key(setting);
    return least_host_memory(read_run_config(table), {.processes = processes, .hosts = 1})
        .value()
        .bytes();
  }

  Outcome tune_with(std::size_t bytes) const {
    write_file(path("meminfo"), fmt::format("MemAvailable: {} kB\n", bytes / 1024));
    Launch launch = TuneRun::launch(set(settings(), {"--seconds", "60", "--json", "tune.json"}));
    launch.environment.emplace_back("LD_PRELOAD", TANDEM_MADE_UP_MEMORY_LIBRARY);
    launch.environment.emplace_back("TANDEM_MADE_UP_MEMORY", path("meminfo").string());
    return run(launch);
  }
};

TEST_F(TuneInMemory, TellsWhatDoesNotFitAndChoosesAmongTheRest) {
  const Outcome outcome = tune_with((need_of(1) + need_of(2)) / 2);
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const Json told = Json::parse(read_file(path("tune.json")));
  std::size_t without_room = 0;
  for (const Json& row : told["rows"]) {
    const bool several = row["ranks_per_device"] > 1 && row["colocation"] == "processes";
    EXPECT_EQ(row.value("does_not_fit", false), several) << row;
    EXPECT_EQ(row["runs"].empty(), several) << row;
    without_room += several ? 1 : 0;
  }
  EXPECT_GE(without_room, 1U) << outcome.out;
  const std::string reason =
      "does not fit: training does not fit the memory of this host: each of 2 processes needs at "
      "least ";
  EXPECT_EQ(occurrences(outcome.out, "2 processes, "), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, reason), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, "choice: "), 1U) << outcome.out;
  const Json& choice = told["choice"];
  EXPECT_TRUE(choice["ranks_per_device"] == 1 || choice["colocation"] == "folded") << choice;
  EXPECT_EQ(files_in("cache/placements"), 1U);
}

TEST_F(TuneInMemory, SaysWhyWhereNothingFits) {
  const Outcome outcome = tune_with(need_of(1) / 2);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err,
                        "error: nothing fits the memory: training does not fit the "
                        "memory of this host: it needs at least "),
            1U)
      << outcome.err;
  EXPECT_EQ(files_in("cache/placements"), 0U);
}

}  // namespace
}  // namespace tandem::cli
