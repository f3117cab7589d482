#include "parallel/announced_work.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/file_work.h"
#include "base/heartbeat.h"
#include "parallel/self_communicator.h"
#include "support/message.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr FilePatience patience{.seconds = 2.0, .key = "data.timeout_seconds", .advice = "; wait"};

class AnnouncedWork : public testing::Test {
 protected:
  SelfCommunicator self_;
};

TEST_F(AnnouncedWork, MayTakeAsLongAsItLikesWhileFilesMove) {
  int moved = 0;
  run_announced(self_, {.seconds = 4.0, .key = "data.timeout_seconds"}, [&] {
    file_in_hand("slow");
    for (; moved < 25; ++moved) {
      std::this_thread::sleep_for(milliseconds(200));
      file_moved();
    }
  });
  EXPECT_EQ(moved, 25);
}

TEST_F(AnnouncedWork, MayTakeLongerToSyncALargeFile) {
  bool done = false;
  run_announced(self_, patience, [&] {
    file_in_hand("large");
    file_syncs(std::uint64_t{64} << 20U);
    std::this_thread::sleep_for(milliseconds(4000));
    done = true;
  });
  EXPECT_TRUE(done);
}

// As a terminal is by Ctrl-S: what is written to a run's folder is told there too.
TEST_F(AnnouncedWork, WaitsForAsLongAsATerminalIsHeld) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
  while (::write(pipe[1], "x", 1) == 1) {
  }
  std::thread reader([&] {
    std::this_thread::sleep_for(milliseconds(4000));
    std::vector<char> bytes(65536);
    EXPECT_GT(::read(pipe[0], bytes.data(), bytes.size()), 0);
  });
  run_announced(self_, patience, [&] { beat_until_writable(pipe[1]); });
  reader.join();
}

TEST_F(AnnouncedWork, NamesTheFileThatStandsStill) {
  std::promise<void> let_go;
  std::promise<void> over;
  // Nobody speaks its last words here, so that the process goes on.
  const std::string message = message_of<FileTimeout>([&] {
    run_announced(self_, patience, [&] {
      file_in_hand("photos/cat");
      let_go.get_future().wait();
      over.set_value();
    });
  });
  EXPECT_TRUE(
      message.starts_with("photos/cat: waited 2 s for it; look at the disk or the network "
                          "that it lies on, or raise data.timeout_seconds ("))
      << message;
  EXPECT_TRUE(message.ends_with("); wait")) << message;
  let_go.set_value();
  over.get_future().wait();
}

TEST_F(AnnouncedWork, IsWaitedForForEverWhereThatIsAskedFor) {
  run_announced(self_, {.seconds = 0.0, .key = "data.timeout_seconds"},
                [] { std::this_thread::sleep_for(milliseconds(1500)); });
}

// What it works on is given up by who catches that.
TEST_F(AnnouncedWork, IsOverBeforeAnErrorOfTheWaitIsThrown) {
  bool over = false;
  EXPECT_THROW(await_file_work(
                   {.seconds = 20.0, .key = "data.timeout_seconds"},
                   [&] {
                     std::this_thread::sleep_for(milliseconds(300));
                     over = true;
                   },
                   [] { system_error("another rank has ended"); }),
               SystemError);
  EXPECT_TRUE(over);
}

TEST_F(AnnouncedWork, ThrowsWhatItThrew) {
  EXPECT_EQ(message_of<InputError>(
                [&] { run_announced(self_, patience, [] { input_error("no such folder"); }); }),
            "no such folder");
}

}  // namespace
}  // namespace tandem
