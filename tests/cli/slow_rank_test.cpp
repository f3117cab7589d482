#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <regex>
#include <thread>

#include "cli/photos.h"
#include "cli/run_folder.h"

// A rank that is slow at work of its own, several times slower than the others' time-out, is no
// rank that hangs; one whose data never come is.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using tandem::testing::Bytes;

constexpr double timeout = 2.0;

/// Keeps a file from being opened by other processes: their open() waits, as for a slow disk.
class HeldFile {
 public:
  explicit HeldFile(const fs::path& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    ::signal(SIGIO, SIG_IGN);  // the kernel's word that somebody waits
    EXPECT_EQ(::fcntl(file_, F_SETLEASE, F_WRLCK), 0) << path << " is on a system without leases";
  }
  ~HeldFile() { release(); }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  bool wanted() const { return ::fcntl(file_, F_GETLEASE) != F_WRLCK; }
  void release() {
    if (file_ < 0) return;
    EXPECT_EQ(::close(file_), 0);
    file_ = -1;
  }

 private:
  int file_;
};

class SlowRank : public RunTest {
 protected:
  /// Starts the command, lets it have the file long after it asked for it, and expects success.
  void expect_patience(const std::vector<std::string>& command, const fs::path& slow) {
    HeldFile file(slow);
    Program program({.command = command, .folder = root()});
    wait_until("the file is wanted", 60.0, [&] { return file.wanted(); });
    std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * timeout));
    file.release();
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }

  static std::vector<std::string> options() {
    return set({"train.max_steps=6", fmt::format("parallel.timeout_seconds={}", timeout)});
  }

  void configure(const std::string& data) const {
    write_file(path("run.toml"), "[model]\nname = \"resnet8\"\n[data]\n" + data +
                                     "[train]\nepochs = 4\nglobal_batch = 4\nthreads = 1\n"
                                     "[optimizer]\nkind = \"sgd\"\nlr = 0.01\n");
  }
};

// One rank's loader waits for a picture, the other rank in the step's reduction.
TEST_F(SlowRank, ThatWaitsForABatchIsWaitedFor) {
  write_photos(path("photos"), {.count = 6});
  configure("kind = \"folder\"\npath = \"photos\"\nsize = 8\n");
  expect_patience(train_command("out", options(), 2), path("photos/train/dog/3.jpg"));
}

class DataThatHang : public SlowRank {
 protected:
  /// A run of three steps an epoch.
  struct Job {
    std::vector<fs::path> files;  ///< that nobody gets to read
    std::string rank = "[01]";    ///< who may tell of one of them
    int ranks = 2;
    std::string step = "[0-9]+";
  };

  /// Expects it to end by one line that names a file, the step, and the rank.
  void expect_end(const Job& job) {
    write_photos(path("photos"), {.count = 6});
    configure("kind = \"folder\"\npath = \"photos\"\nsize = 8\ntimeout_seconds = 3\n");
    hold(job.files);
    expect_end_of_run(job);
  }

  /// Another one, while they are held. With `more` arguments.
  void expect_end_of_run(const Job& job, std::vector<std::string> more = {}) const {
    const auto begin = std::chrono::steady_clock::now();
    // The others wait longer than the rank takes to end the job.
    const auto settings =
        set({"train.max_steps=6", "parallel.timeout_seconds=10"}, std::move(more));
    Program program({.command = train_command("out", settings, job.ranks), .folder = root()});
    const Outcome outcome = program.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 50.0);
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
    const std::regex line("error: step " + job.step +
                          ": .*photos/.*\\.jpg: waited (3|5\\.5) s for it, in which no "
                          "other sample was read either; .*raise data.timeout_seconds \\(rank " +
                          job.rank + " on [^)]*\\)");
    EXPECT_TRUE(std::regex_search(outcome.err, line)) << outcome.err;
  }

 private:
  void hold(const std::vector<fs::path>& files) {
    for (const fs::path& file : files) {
      held_.push_back(std::make_unique<HeldFile>(path("photos") / file));
    }
  }

  std::vector<std::unique_ptr<HeldFile>> held_;
};

TEST_F(DataThatHang, EndTheJobWithTheSamplesName) { expect_end({.files = {"train/dog/3.jpg"}}); }

// That of the step which it follows, also where another run has done that one.
TEST_F(DataThatHang, EndAnEvaluationToo) {
  const Job job{.files = {"validation/dog/1.jpg"}, .step = "3"};
  expect_end(job);
  expect_end_of_run(job, {"--resume"});
}

// As on a network's disk that is gone.
TEST_F(DataThatHang, AreToldOfOnceWhereAllRanksWait) {
  std::vector<fs::path> all;
  for (const char* kind : {"cat", "dog"}) {
    for (int i = 0; i < 6; ++i) all.push_back(fmt::format("train/{}/{}.jpg", kind, i));
  }
  expect_end({.files = all, .rank = "0", .ranks = 4});
}

Bytes idx(const std::vector<std::uint8_t>& extents) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  std::size_t count = 1;
  for (const std::uint8_t extent : extents) {
    bytes.insert(bytes.end(), {0, 0, 0, extent});
    count *= extent;
  }
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i / 64 % 2));
  return bytes;
}

void write_idx(const fs::path& folder) {
  const Bytes images = idx({12, 8, 8});
  const Bytes labels = idx({12});
  fs::create_directories(folder);
  write_file(folder / "images", {images.begin(), images.end()});
  write_file(folder / "labels", {labels.begin(), labels.end()});
}

constexpr const char* idx_data =
    "kind = \"idx\"\nclasses = 2\ntrain_images = \"images\"\ntrain_labels = \"labels\"\n"
    "test_images = \"images\"\ntest_labels = \"labels\"\n";

/// Files that are opened before the first step.
class FilesThatHang : public SlowRank {
 protected:
  void SetUp() override {
    write_idx(root());
    configure(idx_data);
  }

  /// Expects the command to end by one line that names the file and `key`. The longer a start may
  /// last, the longer is one rank's turn before the next one's.
  void expect_end(const std::string& command, const std::string& file, const std::string& key,
                  const std::string& start_seconds = "10") {
    const HeldFile held(path(file));
    const auto settings =
        set({"train.max_steps=6", "parallel.timeout_seconds=10", "data.timeout_seconds=3"});
    std::vector<std::string> arguments{command, "run.toml"};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const Outcome outcome = run({.command = on_ranks(2, arguments),
                                 .folder = root(),
                                 .environment = {{"TANDEM_START_SECONDS", start_seconds}}});
    EXPECT_LT(outcome.seconds, 50.0);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
    const std::regex line(
        "error: " + file +
        ": waited (3|8|16) s for it; look at the disk or the network that it lies "
        "on, or raise " +
        key + " \\(rank 0 on [^)]*\\)");
    EXPECT_TRUE(std::regex_search(outcome.err, line)) << outcome.err;
  }
};

TEST_F(FilesThatHang, EndTrainingThatOpensItsData) {
  expect_end("train", "labels", "data.timeout_seconds");
}

TEST_F(FilesThatHang, EndABenchToo) { expect_end("bench", "labels", "data.timeout_seconds"); }

// The config's reader looks at the first images' size, before the ranks have met.
TEST_F(FilesThatHang, EndWhoeverReadsTheConfig) {
  expect_end("train", "images", "TANDEM_START_SECONDS", "20");
}

// Each rank has data of its own, and opening those of one takes long.
TEST_F(SlowRank, ThatOpensItsDataIsWaitedFor) {
  for (const std::string host : {"a", "b"}) write_idx(path(host));
  configure(idx_data);
  std::vector<std::string> arguments{"train", path("run.toml").string(), "--out", "out"};
  for (const std::string& option : options()) arguments.push_back(option);
  std::vector<std::string> command = mpirun(1, arguments);
  const std::vector<std::string> second = tandem(arguments);
  const std::string program = second.front();
  const auto place = std::find(command.begin(), command.end(), program);
  command.insert(place, {"-wdir", path("a").string()});
  command.insert(command.end(), {":", "-n", "1", "-wdir", path("b").string()});
  command.insert(command.end(), second.begin(), second.end());
  expect_patience(command, path("b/labels"));  // read once the ranks have met
}

}  // namespace
}  // namespace tandem::cli
