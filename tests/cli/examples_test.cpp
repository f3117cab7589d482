#include <algorithm>

#include "cli/run_folder.h"

// Every run in examples/ whose data this machine has does a few steps; the others say which file is
// missing, and nothing else is wrong with them.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// Run files below examples/: those that choose data. Model files lie there too.
std::vector<std::string> examples() {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(TANDEM_EXAMPLES)) {
    if (entry.path().extension() == ".toml" &&
        read_file(entry.path()).find("\n[data]") != std::string::npos) {
      found.push_back(fs::relative(entry.path(), TANDEM_EXAMPLES).string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// What to set for an example, by its folder: data that a user would bring, and less work.
std::vector<std::string> stand_in(const std::string& example) {
  // Its 10,000 test images at full size would take this test's time.
  if (example.starts_with("fashion_mnist/")) return set({"data.size=12", "train.eval_batch=100"});
  if (!example.starts_with("photos/") || !fs::is_directory(TANDEM_CLOTHING)) return {};
  return set({"data.path=" TANDEM_CLOTHING});
}

class Example : public RunTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(Example, RunsOrSaysWhichDataIsMissing) {
  // As the README starts them: from the source tree, under a limit of two steps.
  std::vector<std::string> arguments{"train", std::string(TANDEM_EXAMPLES) + "/" + GetParam(),
                                     "--out", path("out").string()};
  const std::vector<std::string> more =
      set({"train.max_steps=2", "train.threads=1", "train.global_batch=8"}, stand_in(GetParam()));
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run({.command = tandem(arguments),
                               .folder = fs::path(TANDEM_EXAMPLES).parent_path(),
                               .environment = {{"HOME", root().string()}}});
  ASSERT_FALSE(outcome.timed_out) << outcome.err;
  if (outcome.code == 0) {
    EXPECT_EQ(checkpoint_steps(path("out")).back(), 2);
    EXPECT_EQ(read_metrics(path("out"), "evaluation").size(), 1U);
    return;
  }
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  const bool missing = outcome.err.find(": no such f") != std::string::npos &&
                       outcome.err.find(": data.") != std::string::npos;
  EXPECT_TRUE(missing) << outcome.err;
  // Whatever else the file says is right: with synthetic data in its place it trains.
  const std::string text = read_file(fs::path(TANDEM_EXAMPLES) / GetParam());
  const std::size_t data = text.find("\n[data]") + 1;
  std::size_t end = data;  // the next table that is not within [data]
  do {
    end = text.find("\n[", end + 1);
  } while (end != std::string::npos && text.compare(end, 7, "\n[data.") == 0);
  write_file(path("run.toml"),
             text.substr(0, data) +
                 "[data]\nkind = \"synthetic\"\ntrain_size = 16\ntest_size = 8\nheight = 32\n"
                 "width = 32\n" +
                 (end == std::string::npos ? "" : text.substr(end + 1)));
  const Outcome synthetic = train("synthetic", more);
  EXPECT_EQ(synthetic.code, 0) << synthetic.err;
}

TEST(Examples, AreThere) { EXPECT_GE(examples().size(), 1U) << TANDEM_EXAMPLES; }

INSTANTIATE_TEST_SUITE_P(All, Example, ::testing::ValuesIn(examples()),
                         [](const ::testing::TestParamInfo<std::string>& each) {
                           std::string name = each.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::cli
