#include "train/record/run_lock.h"

#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.h"
#include "support/message.h"
#include "train/scratch.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

using RunLockTest = ScratchTest;

int no_locks(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

TEST_F(RunLockTest, NamesWhoHoldsIt) {
  const fs::path out = path("runs/out");
  std::optional<RunLock> first(out);
  std::string host(256, '\0');
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  host.resize(host.find('\0'));
  const std::string holder = host + ", process " + std::to_string(::getpid());
  EXPECT_EQ(get(out / "run.lock"), holder + "\n");
  const std::string message = message_of<InputError>([&] { RunLock second(out); });
  EXPECT_EQ(message, "another run (" + holder + ") is writing to " + out.string() +
                         "; wait for its end or choose another --out");
  EXPECT_TRUE(fs::exists(out / "run.lock")) << "the loser took the winner's file away";
  EXPECT_NO_THROW(RunLock(path("other")));
  first.reset();
  EXPECT_NO_THROW(RunLock{out});
}

TEST_F(RunLockTest, FileOfADeadRunIsNoObstacle) {
  put(path("run.lock"), "elsewhere, process 1, with a longer name than any that comes after it");
  const RunLock lock(folder_);
  EXPECT_NE(get(path("run.lock")).find(", process " + std::to_string(::getpid()) + "\n"),
            std::string::npos);
  EXPECT_EQ(get(path("run.lock")).find("longer"), std::string::npos);
}

TEST_F(RunLockTest, LeavesNothingOfItsOwn) {
  { const RunLock lock(path("out")); }
  EXPECT_FALSE(fs::exists(path("out")));
  fs::create_directory(path("there"));
  { const RunLock lock(path("there")); }
  EXPECT_TRUE(fs::is_empty(path("there")));
  {
    const RunLock lock(path("used"));
    put(path("used/metrics.jsonl"), "{}\n");
  }
  EXPECT_FALSE(fs::exists(path("used/run.lock")));
  EXPECT_EQ(get(path("used/metrics.jsonl")), "{}\n");
}

TEST_F(RunLockTest, GoesOnWhereThereAreNoLocks) { EXPECT_NO_THROW(RunLock(path("out"), no_locks)); }

TEST_F(RunLockTest, FolderThatCannotBe) {
  put(path("file"), "");
  const std::string message = message_of<InputError>([&] { RunLock lock(path("file/out")); });
  EXPECT_EQ(message.find("cannot make the run's folder " + path("file/out").string()), 0U)
      << message;
  EXPECT_NE(message.find("--out"), std::string::npos) << message;
}

}  // namespace
}  // namespace tandem
