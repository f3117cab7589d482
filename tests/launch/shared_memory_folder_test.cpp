#include "launch/shared_memory_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/host_tag.h"
#include "base/shared_memory.h"
#include "launch/holds_within.h"
#include "launch/job_supervisor.h"
#include "parallel/mapped/shared_segment.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "OMPI_MCA_btl_vader_backing_directory";

const char* nothing(const char*) { return nullptr; }

/// Of the job in /dev/shm.
std::vector<fs::path> folders_of(const std::string& job) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& each : fs::directory_iterator("/dev/shm")) {
    if (each.path().filename().string().find(job) != std::string::npos) {
      found.push_back(each.path());
    }
  }
  return found;
}

/// As a rank that is killed leaves it.
void write_segment(const fs::path& folder) { std::ofstream(folder / "vader_segment.0") << "x"; }

TEST(SharedMemoryFolder, GoesWithTheLauncherAndAllThatIsInIt) {
  const std::string job = new_job_name();
  const std::string other = new_job_name();
  const SharedMemoryFolder others(other);
  {
    const SharedMemoryFolder launcher(job);
    ASSERT_EQ(folders_of(job).size(), 1U);
    const fs::path folder = folders_of(job).front();
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
    {
      const SharedMemoryFolderHold rank(job);
      EXPECT_EQ(rank.variables(nothing),
                (EnvironmentChanges{{shared_memory_folder_variable, folder.string()},
                                    {variable, folder.string()}}));
      EXPECT_EQ(rank.variables(nothing), shared_memory_variables(job, nothing));
    }
    EXPECT_EQ(folders_of(job).size(), 1U) << "other ranks may still come";
    write_segment(folder);
  }
  EXPECT_TRUE(folders_of(job).empty());
  EXPECT_EQ(folders_of(other).size(), 1U);
}

TEST(SharedMemoryFolder, OfTheMpiLibraryIsLeftToTheUsersEnvironment) {
  const std::string job = new_job_name();
  const SharedMemoryFolder launcher(job);
  const SharedMemoryFolderHold rank(job);
  const EnvironmentChanges changes = rank.variables(
      [](const char* name) { return name == std::string(variable) ? "/tmp" : nullptr; });
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].first, shared_memory_folder_variable);
}

TEST(SharedMemoryFolder, IsNoneOnOtherHosts) {
  const std::string job = new_job_name();
  const SharedMemoryFolderHold rank(job);
  EXPECT_TRUE(rank.variables(nothing).empty());
  EXPECT_TRUE(folders_of(job).empty());
}

TEST(SharedMemoryFolder, GoesWithTheLastRankWhereTheLauncherIsKilled) {
  const std::string job = new_job_name();
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    const SharedMemoryFolder folder(job);
    ::raise(SIGSTOP);
  }
  ASSERT_EQ(::waitpid(launcher, nullptr, WUNTRACED), launcher);
  auto first = std::make_unique<SharedMemoryFolderHold>(job);
  auto last = std::make_unique<SharedMemoryFolderHold>(job);
  ASSERT_EQ(::kill(launcher, SIGKILL), 0);
  ASSERT_EQ(::waitpid(launcher, nullptr, 0), launcher);
  const fs::path folder = folders_of(job).front();
  write_segment(folder);
  first.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(fs::exists(folder));
  last.reset();
  EXPECT_TRUE(
      holds_within(10.0, std::chrono::milliseconds(5), [&] { return !fs::exists(folder); }));
}

TEST(SharedMemoryFolder, StaysUntilTheProgramThatARankBecameHasEnded) {
  const std::string job = new_job_name();
  auto launcher = std::make_unique<SharedMemoryFolder>(job);
  const fs::path folder = folders_of(job).front();
  int until_closed[2];
  ASSERT_EQ(::pipe(until_closed), 0);
  const pid_t watcher = ::fork();
  ASSERT_GE(watcher, 0);
  if (watcher == 0) {
    ::close(until_closed[1]);
    const SharedMemoryFolderHold hold(job);
    ::dup2(until_closed[0], STDIN_FILENO);
    if (::fork() == 0) ::execlp("cat", "cat", nullptr);
    ::_exit(0);  // before its rank, as one that is killed
  }
  ::close(until_closed[0]);
  ASSERT_EQ(::waitpid(watcher, nullptr, 0), watcher);
  std::jthread end([&] { launcher.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(fs::exists(folder)) << "it is gone before the rank";
  ::close(until_closed[1]);
  end.join();
  EXPECT_FALSE(fs::exists(folder));
}

/// As a job leaves it whose last process is killed too.
fs::path abandoned_folder(const std::string& job) {
  fs::path folder;
  {
    const SharedMemoryFolder launcher(job);
    folder = folders_of(job).front();
  }
  EXPECT_EQ(::mkdir(folder.c_str(), S_IRWXU), 0);
  write_segment(folder);
  return folder;
}

TEST(SharedMemoryFolder, ThatADeadJobLeftIsRemovedByTheNextLauncher) {
  const std::string dead = new_job_name();
  const std::string living = new_job_name();
  const std::string young = new_job_name();
  for (const std::string& job : {dead, living, young}) abandoned_folder(job);
  const SharedMemoryFolderHold rank(living);  // before it is old: others' launchers look too
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::minutes(10);
  for (const std::string& job : {dead, living}) {
    fs::last_write_time(folders_of(job).front(), long_ago);
  }
  {
    const SharedMemoryFolder launcher(new_job_name());
    EXPECT_TRUE(folders_of(dead).empty());
    EXPECT_EQ(folders_of(living).size(), 1U);
    EXPECT_EQ(folders_of(young).size(), 1U);
  }
  for (const std::string& job : {living, young}) fs::remove_all(folders_of(job).front());
}

TEST(SharedMemoryFolder, ThatADeadContainerOfThisHostLeftIsRemovedToo) {
  fs::path folder = abandoned_folder(new_job_name());
  const fs::path of_container = folder.string().substr(0, folder.string().size() - 4) +
                                (host_tag() == "0000" ? "0001" : "0000");
  fs::rename(folder, of_container);
  fs::last_write_time(of_container, fs::file_time_type::clock::now() - std::chrono::minutes(10));
  const SharedMemoryFolder launcher(new_job_name());
  EXPECT_FALSE(fs::exists(of_container));
}

}  // namespace
}  // namespace tandem
