#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "data/jpeg_writer.h"

// tandem data verify: what it finds in folders with faults put into them.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class DataVerify : public RunTest {
 protected:
  /// A picture that is like no other of another `number`.
  void picture(const std::string& file, int number, int height = 12, int width = 10) {
    Image image = tandem::testing::smooth(height, width, 3);
    for (auto& value : image.pixels) value = static_cast<std::uint8_t>(value / 2 + number * 5);
    const auto bytes = tandem::testing::write_jpeg(image, {});
    fs::create_directories(path(file).parent_path());
    write_file(path(file), {bytes.begin(), bytes.end()});
  }
  DataVerify() {
    int number = 0;
    for (const char* part : {"train", "val"}) {
      for (const char* name : {"cat", "dog"}) {
        for (int i = 0; i < 3; ++i) {
          picture(fmt::format("photos/{}/{}/{}.jpg", part, name, i), number++);
        }
      }
    }
  }
  Outcome verify(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"data", "verify", "--kind", "folder", "photos"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command(arguments);
  }
};

TEST_F(DataVerify, CountsWhatIsThere) {
  picture("photos/train/dog/3.jpg", 20, 31, 17);
  const Outcome outcome = verify();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("training: 7 samples, labels 0 to 1, heights 12 to 31 (median 12), "
                             "widths 10 to 17 (median 10), 0 unreadable"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("test: 6 samples"), std::string::npos);
  EXPECT_NE(outcome.out.find("0 unreadable, 0 groups of duplicates, 0 of them across"),
            std::string::npos)
      << outcome.out;
}

// At which a run would end.
TEST_F(DataVerify, CountsOnWhereClassesAreEmpty) {
  fs::create_directories(path("photos/train/fox"));
  fs::remove_all(path("photos/val/dog"));
  fs::create_directories(path("photos/val/dog"));
  write_file(path("photos/val/dog/notes.txt"), "none yet");
  const Outcome text = verify();
  EXPECT_EQ(text.code, 2) << text.err;
  for (const std::string part :
       {"training: 6 samples", "test: 3 samples, labels 0 to 0", "dog           3         0\n",
        "fox           0         0\n",
        "empty: photos/train/fox: class folder without a .jpg or .jpeg file\n",
        "empty: photos/val/dog: class folder without a .jpg or .jpeg file\n",
        "0 unreadable, 0 groups of duplicates"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out << "\nwanted: " << part;
  }
  const auto json = nlohmann::json::parse(verify({"--json"}).out);
  EXPECT_EQ(json["empty_classes"], nlohmann::json({"photos/train/fox", "photos/val/dog"}));
  EXPECT_EQ(json["train"]["samples"], 6);
}

TEST_F(DataVerify, TellsNoLabelsAndExtentsOfWhatIsNotThere) {
  fs::remove_all(path("photos/val"));
  fs::create_directories(path("photos/val/dog"));
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(path("photos/train"))) {
    if (file.is_regular_file()) write_file(file.path(), "no picture");
  }
  const std::string text = verify().out;
  EXPECT_NE(text.find("training: 6 samples, labels 0 to 1, 6 unreadable\n"), std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(verify({"--json"}).out);
  const nlohmann::json& none = json["test"];
  EXPECT_EQ(none["samples"], 0);
  for (const char* what : {"labels", "height", "width"}) EXPECT_TRUE(none[what].is_null()) << none;
  const nlohmann::json& unreadable = json["train"];
  EXPECT_EQ(unreadable["labels"], nlohmann::json({0, 1}));
  for (const char* what : {"height", "width"}) {
    EXPECT_TRUE(unreadable[what].is_null()) << unreadable;
  }
}

TEST_F(DataVerify, NamesTenOfManyDuplicates) {
  for (int copy = 0; copy < 11; ++copy) {
    fs::copy_file(path("photos/train/cat/0.jpg"),
                  path(fmt::format("photos/train/cat/copy{:02}.jpg", copy)));
  }
  const std::string text = verify().out;
  EXPECT_NE(text.find(" = photos/train/cat/copy08.jpg and 2 more\n"), std::string::npos) << text;
  const auto report = nlohmann::json::parse(verify({"--json"}).out);
  EXPECT_EQ(report["duplicates"][0]["train"].size(), 12U);
}

TEST_F(DataVerify, TellsFaultsInTextAndJson) {
  write_file(path("photos/train/cat/1.jpg"), "");
  const fs::path truncated = path("photos/val/dog/2.jpg");
  fs::resize_file(truncated, fs::file_size(truncated) - 30);
  fs::copy_file(path("photos/train/cat/0.jpg"), path("photos/train/cat/copy.jpg"));
  fs::copy_file(path("photos/train/dog/0.jpg"), path("photos/val/cat/leak.jpg"));
  const Outcome text = verify({"--threads", "3"});
  EXPECT_EQ(text.code, 2);
  const std::string leak =
      "the same, in training and test set, with different labels: photos/train/dog/0.jpg = "
      "photos/val/cat/leak.jpg\n";
  const std::vector<std::string> parts{
      "unreadable: photos/train/cat/1.jpg: cannot be decoded as JPEG (",
      "unreadable: photos/val/dog/2.jpg: cannot be decoded as JPEG (",
      "the same: photos/train/cat/0.jpg = photos/train/cat/copy.jpg\n", leak,
      "2 unreadable, 2 groups of duplicates, 1 of them across training and test set"};
  for (const std::string& part : parts) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in: " << text.out;
  }
  const Outcome json = verify({"--json"});
  EXPECT_EQ(json.code, 2);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["train"]["samples"], 7);
  EXPECT_EQ(report["train"]["per_class"]["cat"], 4);
  EXPECT_EQ(report["test"]["per_class"]["dog"], 3);
  EXPECT_EQ(report["unreadable"], 2);
  EXPECT_EQ(report["test"]["unreadable"].size(), 1U);
  EXPECT_EQ(report["duplicates"].size(), 2U);
  EXPECT_EQ(report["duplicates_across_parts"], 1);
  EXPECT_EQ(report["train"]["width"]["median"], 10);
}

TEST_F(DataVerify, TellsWhatIsNoFile) {
  fs::create_symlink("nowhere.jpg", path("photos/train/cat/link.jpg"));
  fs::create_directories(path("photos/train/dog/folder.jpg"));
  ASSERT_EQ(::mkfifo(path("photos/val/cat/pipe.jpg").c_str(), 0600), 0);
  write_file(path("photos/val/dog/notes.txt"), "");
  const Outcome outcome = verify();
  EXPECT_EQ(outcome.code, 2);
  for (const char* part :
       {"unreadable: photos/train/cat/link.jpg: a link that cannot be followed (No such file",
        "unreadable: photos/train/dog/folder.jpg: not a regular file but a folder",
        "unreadable: photos/val/cat/pipe.jpg: not a regular file", "3 unreadable, 0 groups"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in: " << outcome.out;
  }
  EXPECT_NE(outcome.err.find("photos/val: 1 entry ignored: "), std::string::npos) << outcome.err;
}

TEST_F(DataVerify, SaysWhatIsWrongWithTheSetOrTheCommand) {
  expect_one_message(command({"data", "verify", "photos"}), {"photos", "--kind"});
  expect_one_message(command({"data", "verify", "--kind", "folder", "nosuch"}),
                     {"data verify nosuch: no such folder; give the one that holds the data"});
  fs::create_directory(path("empty"));
  expect_one_message(
      command({"data", "verify", "--kind", "folder", "empty"}),
      {"data verify empty: no folder 'train' in it; give the one that holds train/"});
  expect_one_message(command({"data", "verify", "--kind", "folder", "run.toml"}),
                     {"data verify run.toml: it is no folder, whose kind --kind says"});
  fs::create_directories(path("5"));
  expect_one_message(command({"data", "verify", "--kind", "folder", "5"}),
                     {"error: data verify 5: no folder 'train' in it"});
  picture("photos/val/eel/0.jpg", 20);
  expect_one_message(verify(), {"photos/val: class folder 'eel' is not among the 2 training"});
}

TEST_F(DataVerify, TellsHowFarItIs) {
  // Long enough for several looks, a hundred a second.
  const std::vector<std::string> arguments{
      "data", "verify", "--set", "data.train_size=100000", "run.toml", "--threads", "1"};
  const Outcome live = run({.command = on_ranks(1, arguments),
                            .folder = root(),
                            .environment = {{"TERM", "xterm"}},
                            .terminal = true});
  EXPECT_EQ(live.code, 0) << live.out;
  EXPECT_GE(occurrences(live.out, "\rchecked ["), 1U) << live.out;
  EXPECT_GE(occurrences(live.out, "/100,070  "), 1U) << live.out;
  // The line is gone before the report comes.
  EXPECT_NE(live.out.find("\r\x1b[Ktraining: 100,000 samples"), std::string::npos) << live.out;
  const Outcome plain = command(arguments);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.err.find('\x1b'), std::string::npos) << plain.err;
  // A line every ten seconds.
  EXPECT_LE(occurrences(plain.err, "images checked"), static_cast<std::size_t>(plain.seconds / 10));
  EXPECT_EQ(occurrences(verify().err, "listing the files of photos/train and photos/val\n"), 1U);
}

TEST_F(DataVerify, ReadsARunFile) {
  const Outcome outcome =
      command({"data", "verify", "run.toml", "--set", "data.train_size=9", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["train"]["samples"], 9);
}

}  // namespace
}  // namespace tandem::cli
