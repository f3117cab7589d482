#include "launch/rank_board.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/process_place.h"
#include "base/process_table.h"
#include "base/standstill.h"
#include "launch/job_supervisor.h"

namespace {

bool g_reads_fail = false;
int g_failed_reads = 0;

}  // namespace

/// In front of the C library's: behind a folder's first file nothing can be read, where that is
/// wished.
extern "C" dirent* readdir(DIR* folder) {
  using Function = dirent* (*)(DIR*);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "readdir"));
  static bool is_behind = false;
  if (!g_reads_fail) is_behind = false;
  if (g_reads_fail && std::exchange(is_behind, false)) {
    ++g_failed_reads;
    errno = EIO;
    return nullptr;
  }
  dirent* const entry = next(folder);
  is_behind = g_reads_fail && entry != nullptr && entry->d_name[0] != '.';
  return entry;
}

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr SignalledRank killed(int rank, const char* device, std::int64_t step) {
  return {.rank = rank, .device = device, .step = step, .signal = SIGKILL};
}

TEST(SignalledText, NamesOneRankOrSeveral) {
  const std::string host = place_text(-1, "", 0);
  EXPECT_EQ(signalled_text({killed(1, "GPU-a", 7)}, "ended"),
            "rank 1 on " + host + ", GPU-a, step 7 was ended by signal 9 (Killed)");
  EXPECT_EQ(signalled_text({killed(1, "", 7), killed(2, "", 7)}, "ended"),
            "ranks 1 and 2 on " + host + ", step 7 were ended by signal 9 (Killed)");
  EXPECT_EQ(signalled_text({killed(0, "", 8), killed(1, "", 7), killed(3, "", 8)}, "ended"),
            "ranks 0, 1 and 3 on " + host + ", steps 7 to 8 were ended by signal 9 (Killed)");
  EXPECT_EQ(signalled_text({killed(-1, "", 0)}, "ended"), host + " was ended by signal 9 (Killed)");
}

TEST(SignalledText, KeepsGpusAndSignalsApart) {
  const std::string host = place_text(-1, "", 0);
  SignalledRank aborted = killed(2, "GPU-b", 7);
  aborted.signal = SIGABRT;
  EXPECT_EQ(
      signalled_text({killed(0, "GPU-a", 7), killed(1, "GPU-b", 7), aborted, killed(3, "GPU-b", 7)},
                     "ended"),
      "rank 0 on " + host + ", GPU-a, step 7 was ended by signal 9 (Killed); ranks 1 and 3 on " +
          host + ", GPU-b, step 7 were ended by signal 9 (Killed); rank 2 on " + host +
          ", GPU-b, step 7 was ended by signal 6 (Aborted)");
}

TEST(WaitingText, NamesThoseThatWaitInTheSame) {
  EXPECT_EQ(waiting_text({}), "");
  EXPECT_EQ(waiting_text({{0, "bucket 1"}, {1, "barrier"}, {2, "bucket 1"}}),
            ", while ranks 0 and 2 waited in bucket 1");
  EXPECT_EQ(waiting_text({{-1, "barrier"}}), ", while others waited in barrier");
}

TEST(RankBoard, TellsWhatRunningRanksWaitIn) {
  const std::string job = new_job_name();
  RankBoard first({.job = job, .local_rank = 0, .local_size = 2}, 4);
  RankBoard second({.job = job, .local_rank = 1, .local_size = 2}, 5);
  EXPECT_TRUE(first.waiting().empty());
  second.report().set_wait("barrier");
  first.report().set_wait("all_reduce");
  first.set(RankState::killed, SIGKILL);
  for (const RankBoard* each : {&first, &second}) {
    const std::vector<WaitingRank> waiting = each->waiting();
    ASSERT_EQ(waiting.size(), 1U);
    EXPECT_EQ(waiting[0].rank, 5);
    EXPECT_EQ(waiting[0].operation, "barrier");
  }
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  second.set_process(::getpid());
  EXPECT_EQ(first.waiting().size(), 1U);
  second.set_process(child);
  while (!has_exited(child)) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(first.waiting().empty()) << "of one that has ended unnoticed";
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  second.set_process(0);
  EXPECT_EQ(first.waiting().size(), 1U);
  second.report().set_wait("");
  EXPECT_TRUE(first.waiting().empty());
}

TEST(RankBoard, TellsWhereRanksAreToWhoeverHasItsFile) {
  int file = -1;
  {
    const std::string job = new_job_name();
    RankBoard first({.job = job, .local_rank = 0, .local_size = 3, .device = "GPU-a"}, 4);
    RankBoard second({.job = job, .local_rank = 1, .local_size = 3}, 5);
    first.report().set_step(7);
    second.report().set_step(ProcessReport::before_first_step);
    file = ::dup(second.claims_descriptor());
  }
  const auto first = RankBoard::place_in_file(file, 4);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->device, "GPU-a");
  EXPECT_EQ(first->step, 7);
  const auto second = RankBoard::place_in_file(file, 5);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->device, "");
  EXPECT_EQ(second->step, ProcessReport::before_first_step);
  EXPECT_FALSE(RankBoard::place_in_file(file, 0)) << "whose watcher has not come";
  ASSERT_EQ(::ftruncate(file, 8), 0);
  EXPECT_FALSE(RankBoard::place_in_file(file, 4)) << "no board";
  ::close(file);
  EXPECT_FALSE(RankBoard::place_in_file(-1, 4)) << "no file";
}

TEST(RankBoard, HasTheClaimsOfOneJobAlone) {
  const std::string job = new_job_name();
  {
    RankBoard first({.job = job, .local_rank = 0, .local_size = 2}, 0);
    RankBoard second({.job = job, .local_rank = 1, .local_size = 2}, 1);
    EXPECT_TRUE(first.claims().claim(HostClaim::killed_rank));
    EXPECT_TRUE(second.claims().is_claimed(HostClaim::killed_rank));
    EXPECT_FALSE(second.claims().claim(HostClaim::killed_rank));
    EXPECT_FALSE(second.claims().is_claimed(HostClaim::error));
  }
  // Another job's, and one's of the same name that comes behind.
  for (const std::string& name : {new_job_name(), job}) {
    RankBoard board({.job = name, .local_rank = 0, .local_size = 2}, 0);
    EXPECT_FALSE(board.claims().is_claimed(HostClaim::killed_rank));
  }
}

TEST(RankBoard, IsLeftWhereItsFolderCannotBeReadToTheEnd) {
  const std::string job = new_job_name();
  const RankBoard board({.job = job, .local_rank = 0, .local_size = 2}, 0);  // a file that is there
  g_failed_reads = 0;
  g_reads_fail = true;
  EXPECT_NO_THROW(remove_abandoned_boards());
  EXPECT_NO_THROW(remove_rank_boards(job));
  g_reads_fail = false;
  EXPECT_EQ(g_failed_reads, 2);
}

TEST(RankBoard, HasOneSpeakForAll) {
  const std::string job = new_job_name();
  std::atomic<int> said{0};
  std::vector<int> named;
  std::barrier all_there(3);
  const auto watch = [&](int rank, milliseconds delay) {
    RankBoard board({.job = job, .local_rank = rank, .local_size = 3}, rank);
    all_there.arrive_and_wait();  // the last one to leave takes the board away
    std::this_thread::sleep_for(delay);
    board.set(rank == 0 ? RankState::ended : RankState::killed, SIGKILL);
    if (rank == 0) return;
    const auto wait = [] { std::this_thread::sleep_for(milliseconds(1500)); };
    board.say_once(RankState::killed, wait, [&](const auto& ranks) {
      ++said;
      for (const SignalledRank& each : ranks) named.push_back(each.rank);
    });
    EXPECT_EQ(said, 1);  // whoever ends before the line is out would have the job ended
  };
  {
    std::thread ended(watch, 0, milliseconds(100));
    std::thread first(watch, 1, milliseconds(100));
    std::thread second(watch, 2, milliseconds(200));
    for (std::thread* each : {&ended, &first, &second}) each->join();
  }
  EXPECT_EQ(said, 1);
  EXPECT_EQ(named, (std::vector<int>{1, 2}));
}

/// Forks a watcher whose rank was killed; it writes a line into `pipe` before it is to speak, and
/// one when it does.
pid_t start_watcher(const std::string& job, int rank, milliseconds patience, int pipe) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const auto write_line = [&](const std::string& text) {
    if (::write(pipe, text.data(), text.size()) < 0) ::_exit(1);
  };
  RankBoard board({.job = job, .local_rank = rank, .local_size = 2}, rank);
  board.set(RankState::killed, SIGKILL);
  write_line("comes\n");
  const auto wait = [patience] { std::this_thread::sleep_for(patience); };
  board.say_once(RankState::killed, wait, [&](const auto& ranks) {
    write_line(std::to_string(rank) + " names " + std::to_string(ranks.size()) + "\n");
  });
  ::_exit(0);
}

std::string read_some(int pipe) {
  std::array<char, 256> text{};
  return {text.data(),
          static_cast<std::size_t>(std::max<ssize_t>(::read(pipe, text.data(), text.size()), 0))};
}

TEST(RankBoard, HasAnotherSpeakWhereTheFirstIsKilled) {
  const std::string job = new_job_name();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t first = start_watcher(job, 0, std::chrono::minutes(10), pipe[1]);
  EXPECT_EQ(read_some(pipe[0]), "comes\n");
  std::this_thread::sleep_for(milliseconds(1000));  // until it holds the lock
  const pid_t second = start_watcher(job, 1, milliseconds(0), pipe[1]);
  EXPECT_EQ(read_some(pipe[0]), "comes\n");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(::waitpid(second, nullptr, WNOHANG), 0);  // it waits for the first one's line
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_EQ(read_some(pipe[0]), "1 names 2\n");
  EXPECT_EQ(::waitpid(first, nullptr, 0), first);
  EXPECT_EQ(::waitpid(second, nullptr, 0), second);
  for (const int end : pipe) ::close(end);
}

TEST(RankBoard, SpeaksOfItsOwnRankWhereNothingCanBeShared) {
  const std::string job(300, 'j');  // longer than a name of shared memory can be
  RankBoard first({.job = job, .local_rank = 0, .local_size = 2}, 0);
  RankBoard second({.job = job, .local_rank = 1, .local_size = 2}, 1);
  first.report().set_step(7);
  first.set(RankState::killed, SIGKILL);
  EXPECT_FALSE(second.any(RankState::killed));
  std::vector<SignalledRank> told;
  first.say_once(
      RankState::killed, [] {}, [&](const auto& ranks) { told = ranks; });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].rank, 0);
  EXPECT_EQ(told[0].step, 7);
}

/// Of the job in /dev/shm.
std::vector<std::filesystem::path> files_of(const std::string& job) {
  std::vector<std::filesystem::path> found;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm")) {
    if (each.path().filename().string().find(job) != std::string::npos) {
      found.push_back(each.path());
    }
  }
  return found;
}

TEST(RankBoard, LeavesNoNameOnceAllHaveIt) {
  const std::string job = new_job_name();
  const auto names = [&] { return files_of(job).size(); };
  const RankBoard first({.job = job, .local_rank = 0, .local_size = 2}, 0);
  EXPECT_EQ(names(), 1U);
  EXPECT_TRUE(first.any(RankState::unknown));
  {
    const RankBoard second({.job = job, .local_rank = 1, .local_size = 2}, 1);
    EXPECT_EQ(names(), 0U);
    EXPECT_FALSE(first.any(RankState::unknown));
  }
  const std::string other = new_job_name();
  const RankBoard lonely({.job = job, .local_rank = 0, .local_size = 2}, 0);
  EXPECT_EQ(names(), 1U);
  remove_rank_boards(other);
  EXPECT_EQ(names(), 1U);
  remove_rank_boards(job);
  EXPECT_EQ(names(), 0U);
}

/// The first of two watchers that are killed, and their launcher too, before the second has come.
void leave_board(const std::string& job) {
  const pid_t watcher = ::fork();
  if (watcher == 0) {
    const RankBoard board({.job = job, .local_rank = 0, .local_size = 2}, 0);
    ::raise(SIGKILL);
  }
  EXPECT_EQ(::waitpid(watcher, nullptr, 0), watcher);
}

TEST(RankBoard, ThatADeadJobLeftIsRemovedByTheNextLauncher) {
  const std::string dead = new_job_name();
  const std::string living = new_job_name();
  const std::string young = new_job_name();
  leave_board(dead);
  leave_board(young);
  const RankBoard board({.job = living, .local_rank = 0, .local_size = 2}, 0);
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(10);
  for (const std::string& job : {dead, living}) {
    std::filesystem::last_write_time(files_of(job).at(0), long_ago);
  }
  remove_abandoned_boards();
  EXPECT_TRUE(files_of(dead).empty());
  EXPECT_EQ(files_of(living).size(), 1U);
  EXPECT_EQ(files_of(young).size(), 1U);
  remove_rank_boards(young);
}

TEST(Standstill, CountsOnlyWhatItSaw) {
  const Standstill::Clock::time_point begin{};
  Standstill standstill(begin);
  const auto look = [&](bool still, int at) {
    return standstill.look(still, begin + milliseconds(at)).count();
  };
  EXPECT_DOUBLE_EQ(look(true, 100), 0.1);
  EXPECT_DOUBLE_EQ(look(true, 600), 0.6);
  EXPECT_DOUBLE_EQ(look(true, 60000), 0.6);  // this process was stopped too
  EXPECT_DOUBLE_EQ(look(true, 60100), 0.7);
  EXPECT_DOUBLE_EQ(look(false, 60200), 0.0);
  EXPECT_DOUBLE_EQ(look(true, 60300), 0.1);
}

// As a step may take, in which nobody looks.
TEST(Standstill, CountsALittleOfALongGap) {
  const Standstill::Clock::time_point begin{};
  Standstill standstill(begin, Standstill::Seconds(1.0));
  const auto look = [&](bool still, int at) {
    return standstill.look(still, begin + milliseconds(at)).count();
  };
  EXPECT_DOUBLE_EQ(look(true, 600), 0.6);
  EXPECT_DOUBLE_EQ(look(true, 60000), 1.6);
  EXPECT_DOUBLE_EQ(look(false, 70000), 0.0);
}

}  // namespace
}  // namespace tandem
