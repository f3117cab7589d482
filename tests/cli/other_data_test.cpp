#include <fmt/format.h>

#include "cli/message_check.h"
#include "cli/photos.h"
#include "cli/run_folder.h"

// Data that are not what the other ranks have, or what the run began with.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class OtherData : public RunTest {
 protected:
  OtherData() {
    replace_in(path("run.toml"),
               "kind = \"synthetic\"\ntrain_size = 270\ntest_size = 70\nheight = 8\nwidth = 8\n"
               "channels = 1\nclasses = 4\n",
               "kind = \"folder\"\npath = \"photos\"\nsize = 8\n");
  }

  static std::vector<std::string> options() {
    return set({"train.global_batch=2", "schedule.warmup_epochs=0"});
  }
};

/// Each rank in a folder of its own, as on hosts that share nothing.
TEST_F(OtherData, OfAnotherRankIsRefused) {
  for (const char* host : {"a", "b"}) write_photos(path(host) / "photos");
  const auto start = [&] {
    std::vector<std::string> program = tandem({"train", path("run.toml").string(), "--out", "out"});
    const std::vector<std::string> more = set({"train.max_steps=1"}, options());
    program.insert(program.end(), more.begin(), more.end());
    std::vector<std::string> command = mpirun(1, {});
    command.pop_back();  // the program, which goes after the folders
    for (const char* host : {"a", "b"}) {
      if (*host == 'b') command.insert(command.end(), {":", "-n", "1"});
      command.insert(command.end(), {"--wdir", path(host).string()});
      command.insert(command.end(), program.begin(), program.end());
    }
    return run({.command = command, .folder = root()});
  };
  const auto refusal = [&](const std::string& part) {
    const Outcome outcome = start();
    EXPECT_NE(outcome.code, 0) << part;
    EXPECT_FALSE(outcome.timed_out) << part;
    EXPECT_NE(outcome.err.find(part + " of fingerprint "), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(path("a/out")));
  };
  const fs::path photos = path("b/photos/train");
  fs::rename(photos / "dog/3.jpg", photos / "dog/4.jpg");
  refusal("training samples");
  fs::rename(photos / "dog/4.jpg", photos / "cat/4.jpg");
  refusal("training labels");
  fs::rename(photos / "cat/4.jpg", photos / "dog/3.jpg");
  const fs::path test = path("b/photos/validation");
  fs::rename(test / "dog/3.jpg", test / "dog/4.jpg");
  refusal("test samples");
  fs::rename(test / "dog/4.jpg", test / "dog/3.jpg");
  EXPECT_EQ(start().code, 0);
}

TEST_F(OtherData, ThanTheRunBeganWithIsRefused) {
  write_photos(path("photos"));
  trained("out", set({"train.max_steps=2"}, options()));
  // Elsewhere they are the same.
  fs::rename(path("photos"), path("moved"));
  const auto resume = [&] {
    return train("out",
                 set({"data.path=moved", "train.max_steps=3"},
                     set({"train.global_batch=2", "schedule.warmup_epochs=0"}, {"--resume"})));
  };
  EXPECT_EQ(resume().code, 0);
  for (const char* part : {"train", "validation"}) {
    fs::rename(path("moved") / part / "dog", path("moved") / part / "bird");
  }
  expect_one_message(resume(), {"was made with training data of other class names; resume with"});
  const Outcome eval = command({"eval", "out", "--set", "data.path=moved"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.err.find("was trained on classes of other names"), std::string::npos) << eval.err;
  for (const char* part : {"train", "validation"}) {
    fs::rename(path("moved") / part / "bird", path("moved") / part / "dog");
  }
  fs::rename(path("moved/train/dog/3.jpg"), path("moved/train/cat/4.jpg"));
  expect_one_message(resume(),
                     {"was made with training data of other labels, or in another order"});
}

}  // namespace
}  // namespace tandem::cli
