#include "train/record/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace tandem {
namespace {

/// Standard error and the live line into one pipe, as on a terminal, and a clock set by hand.
class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    if (::pipe(pipe_.data()) != 0) throw std::runtime_error("no pipe");
    saved_ = ::dup(2);
    if (::dup2(pipe_[1], 2) != 2) throw std::runtime_error("cannot redirect");
  }
  ~ProgressTest() override {
    if (pipe_[1] >= 0) static_cast<void>(written());
    ::close(saved_);
  }

  /// Ends the redirection and returns everything written to it (less than a pipe's buffer).
  std::string written() {
    ::dup2(saved_, 2);
    ::close(std::exchange(pipe_[1], -1));
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(pipe_[0], part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    ::close(pipe_[0]);
    return text;
  }
  ProgressOptions options(bool live) {
    return {
        .live = live, .descriptor = 2, .plain_interval_seconds = 10, .width = 21, .clock = [this] {
          return now_;
        }};
  }
  static ProgressState at(std::int64_t step) {
    return {.epoch = 1, .epochs = 2, .step = step, .steps = 100};
  }
  static std::string live(std::int64_t step) {
    return "\r" + format_live_progress(at(step), 20) + "\x1b[K";
  }
  static std::string plain(std::int64_t step) { return format_plain_progress(at(step)) + "\n"; }

  const std::string erased_ = "\r\x1b[K";
  double now_ = 100;
  std::array<int, 2> pipe_{};
  int saved_ = -1;
};

TEST_F(ProgressTest, LiveLineIsRewrittenAtMostTenTimesASecond) {
  {
    Progress progress(options(true));
    for (int step = 1; step <= 25; ++step, now_ += 0.0101) progress.update(at(step));
  }
  EXPECT_EQ(written(), live(1) + live(11) + live(21) + erased_);
}

TEST_F(ProgressTest, LogLinesPushTheLiveLineAside) {
  {
    Progress progress(options(true));
    progress.update(at(1));
    log_info("first");
    log_info("second");
    progress.update(at(2));  // At once: nothing is on the screen.
    progress.end_epoch(at(3));
    now_ += 1;
    progress.update(at(4));
    progress.clear();
    progress.clear();
  }
  log_info("after");
  EXPECT_EQ(written(), live(1) + erased_ + "first\nsecond\n" + live(2) + erased_ + plain(3) +
                           live(4) + erased_ + "after\n");
}

TEST_F(ProgressTest, PlainLinesComeAtTheirIntervalAndAtTheEnd) {
  {
    Progress progress(options(false));
    for (int step = 1; step <= 25; ++step) {
      now_ += 1;
      progress.update(at(step));
    }
    progress.end_epoch(at(25));
    now_ += 9;
    progress.update(at(34));
    now_ += 1;
    progress.update(at(35));
  }
  EXPECT_EQ(written(), plain(10) + plain(20) + plain(25) + plain(35));
}

// A pass over a data set is told by time, however fast its images are.
TEST_F(ProgressTest, APassIsToldByTime) {
  const auto at_image = [](std::int64_t done) {
    return CountState{.done = done, .total = 1'000'000, .seconds = static_cast<double>(done)};
  };
  {
    Progress progress(options(false));
    for (int image = 1; image <= 100'000; ++image, now_ += 0x1p-12)
      progress.update(at_image(image));
  }
  EXPECT_EQ(written(), format_plain_progress(at_image(40'961)) + "\n" +
                           format_plain_progress(at_image(81'921)) + "\n");
}

TEST_F(ProgressTest, OneLiveLineAtATime) {
  const Progress first(options(true));
  EXPECT_THROW(Progress{options(true)}, Error);
  EXPECT_NO_THROW(Progress{options(false)});
}

TEST_F(ProgressTest, ATerminalThatIsGoneStopsNothing) {
  ProgressOptions gone = options(true);
  gone.descriptor = 9999;
  Progress progress(gone);
  EXPECT_NO_THROW(progress.update(at(1)));
}

}  // namespace
}  // namespace tandem
