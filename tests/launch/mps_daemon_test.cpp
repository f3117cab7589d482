#include "launch/mps_daemon.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/host_tag.h"
#include "launch/mps_folder.h"
#include "parallel/placement/mps_control.h"
#include "support/process.h"
#include "support/temporary_folder.h"

// With the control program of tests/launch/fake_mps, which keeps files instead of a server.

namespace tandem {
namespace {

class MpsDaemonTest : public testing::Test {
 protected:
  MpsDaemonTest() {
    set("PATH", TANDEM_FAKE_MPS_FOLDER ":" + path_);
    set("FAKE_MPS_JOURNAL", (folder_ / "journal").string());
    ::unsetenv("FAKE_MPS");
  }

  ~MpsDaemonTest() override { set("PATH", path_); }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  std::filesystem::path pipes() const { return folder_ / "p0"; }
  std::filesystem::path logs() const { return folder_ / "l0"; }
  std::string journal() const {
    std::ifstream file(folder_ / "journal");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string failure() const {
    try {
      const MpsDaemon daemon(pipes(), logs(), "GPU-a");
    } catch (const SystemError& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  std::string path_ = std::getenv("PATH");
};

TEST_F(MpsDaemonTest, AnswersWhileItLivesAndIsGoneBehindIt) {
  const MpsControl control(pipes());
  EXPECT_FALSE(control.answers());
  {
    const MpsDaemon daemon(pipes(), logs(), "GPU-a,GPU-b");
    EXPECT_TRUE(control.answers());
    EXPECT_EQ(control.servers().value().size(), 1U);
    EXPECT_TRUE(control.clients().value().empty());
  }
  EXPECT_FALSE(control.answers());
  EXPECT_EQ(journal(),
            "start " + pipes().string() + " GPU-a,GPU-b\nquit -t\nend " + pipes().string() + "\n");
}

TEST_F(MpsDaemonTest, KnowsItsClients) {
  const MpsDaemon daemon(pipes(), logs(), "GPU-a");
  EXPECT_TRUE(MpsControl(pipes()).clients().value().empty());
  std::ofstream(pipes() / "clients") << "1\n123456 of some words\n";
  EXPECT_EQ(MpsControl(pipes()).clients(), (std::vector<pid_t>{1, 123456}));
  set("CUDA_MPS_PIPE_DIRECTORY", pipes().string());
  EXPECT_EQ(MpsControl::of_environment().clients().value().size(), 2U);
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  EXPECT_EQ(MpsControl::of_environment().pipe_directory(), "/tmp/nvidia-mps");
}

TEST_F(MpsDaemonTest, KnowsItsClientsWhereAServerEndsMeanwhile) {
  const MpsDaemon daemon(pipes(), logs(), "GPU-a");
  std::ofstream(pipes() / "clients") << "123456\n";
  std::ofstream(pipes() / "ending") << "77\n";
  EXPECT_EQ(MpsControl(pipes()).servers().value().size(), 2U);
  EXPECT_EQ(MpsControl(pipes()).clients(), (std::vector<pid_t>{123456}));
  EXPECT_EQ(MpsControl(pipes()).servers().value().size(), 1U);
  // One that is still there and does not answer has clients that nobody knows.
  std::ofstream(pipes() / "silent") << "78\n";
  EXPECT_FALSE(MpsControl(pipes()).clients().has_value());
}

TEST_F(MpsDaemonTest, KnowsItsServersThatAFaultHasSpoilt) {
  const MpsDaemon daemon(pipes(), logs(), "GPU-a");
  const MpsControl control(pipes());
  EXPECT_TRUE(control.faulty_servers().value().empty());
  std::ofstream(pipes() / "fault") << "1\n";
  EXPECT_EQ(control.faulty_servers(), control.servers());
  EXPECT_TRUE(control.faulty_servers().value().empty());  // it has recovered
}

TEST_F(MpsDaemonTest, ThatDoesNotStartIsToldWithItsLog) {
  set("FAKE_MPS", "fail");
  EXPECT_EQ(failure(),
            "the MPS daemon does not start (nvidia-cuda-mps-control ended with 1): An instance of "
            "this daemon is already running");
}

TEST_F(MpsDaemonTest, NeedsItsProgram) {
  set("PATH", "/nowhere");
  EXPECT_EQ(failure().rfind("nvidia-cuda-mps-control is not on PATH", 0), 0U) << failure();
}

TEST_F(MpsDaemonTest, ThatDoesNotEndIsKilled) {
  set("FAKE_MPS", "stubborn");
  { const MpsDaemon daemon(pipes(), logs(), "GPU-a"); }
  // A killed one writes no last line, and its file stays.
  std::ifstream file(pipes() / "nvidia-cuda-mps-control.pid");
  pid_t process = 0;
  ASSERT_TRUE(file >> process);
  for (int tries = 0; !has_ended(process) && tries < 20000; ++tries) ::usleep(1000);
  EXPECT_TRUE(has_ended(process));
}

TEST_F(MpsDaemonTest, ThatDoesNotAnswerIsNoDaemon) {
  set("FAKE_MPS", "deaf");
  std::filesystem::create_directory(pipes());
  std::ofstream(pipes() / "nvidia-cuda-mps-control.pid") << "1\n";
  EXPECT_FALSE(MpsControl(pipes(), 0.2).answers());
  EXPECT_FALSE(MpsControl(pipes(), 0.2).clients().has_value());
  EXPECT_FALSE(MpsControl(pipes(), 0.2).faulty_servers().has_value());
}

TEST(MpsFolderTest, IsThisUsersAlone) {
  const TemporaryFolder base;
  ::setenv("XDG_RUNTIME_DIR", base.path().c_str(), 1);
  const MpsFolder folder(MpsFolder::path_of("abc"));
  EXPECT_EQ(folder.path().parent_path(), base.path());
  folder.create();
  EXPECT_EQ(std::filesystem::status(folder.path()).permissions(),
            std::filesystem::perms::owner_all);
  EXPECT_THROW(folder.create(), SystemError);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  EXPECT_THROW(folder.join(0.0), SystemError);
  folder.remove();
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
  EXPECT_THROW(folder.join(0.0), SystemError);
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST(MpsFolderTest, TellsWhatBecameOfTheDaemons) {
  const TemporaryFolder base;
  const MpsFolder folder(base.path());
  EXPECT_THROW(folder.wait_ready(0.0), SystemError);
  folder.report_failed("no daemon today");
  try {
    folder.wait_ready(0.0);
    ADD_FAILURE() << "ready";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "no daemon today");
  }
  std::filesystem::remove(base / "failed");
  folder.report_ready();
  EXPECT_NO_THROW(folder.wait_ready(0.0));
}

TEST(MpsFolderTest, FindsWhatDeadJobsLeft) {
  const TemporaryFolder base;
  ::setenv("XDG_RUNTIME_DIR", base.path().c_str(), 1);
  const MpsFolder dead(MpsFolder::path_of("0000dead"));
  const MpsFolder alive(MpsFolder::path_of("000a11fe"));
  const MpsFolder mine(MpsFolder::path_of("00000001"));
  for (const MpsFolder& folder : {dead, alive, mine}) {
    folder.create();
    std::ofstream(folder.path() / "ranks.lock") << "";
  }
  alive.join(0.0);  // held by this process to its end
  // Others of this user: a run's folder, and what another host made where /tmp is shared.
  const std::string start = "tandem-" + std::to_string(::geteuid()) + "-";
  const std::filesystem::path run = base / (start + "my-run-" + host_tag());
  const std::filesystem::path elsewhere =
      base / (start + "0000dead-" + (host_tag() == "0000" ? "0001" : "0000"));
  for (const std::filesystem::path& other : {run, elsewhere}) {
    ASSERT_EQ(::mkdir(other.c_str(), S_IRWXU), 0);
  }
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& path : {dead.path(), alive.path(), mine.path(), run, elsewhere}) {
    std::filesystem::last_write_time(path, long_ago);
  }
  EXPECT_EQ(mine.abandoned(), std::vector<std::filesystem::path>{dead.path()});
  // One that was made just now may be somebody's who has not taken its lock yet.
  std::filesystem::last_write_time(dead.path(), std::filesystem::file_time_type::clock::now());
  EXPECT_TRUE(mine.abandoned().empty());
  ::unsetenv("XDG_RUNTIME_DIR");
}

// Its first rank was killed before it took the lock.
TEST(MpsFolderTest, FindsWhatADeadJobLeftWithoutALock) {
  const TemporaryFolder base;
  ::setenv("XDG_RUNTIME_DIR", base.path().c_str(), 1);
  const MpsFolder dead(MpsFolder::path_of("0000dead"));
  const MpsFolder mine(MpsFolder::path_of("00000001"));
  dead.create();
  EXPECT_TRUE(dead.is_deserted());
  EXPECT_TRUE(mine.abandoned().empty());  // it may be about to take the lock
  std::filesystem::last_write_time(
      dead.path(), std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
  EXPECT_EQ(mine.abandoned(), std::vector<std::filesystem::path>{dead.path()});
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST(MpsFolderTest, GoesWhereSocketsFit) {
  ::setenv("XDG_RUNTIME_DIR", ("/tmp/" + std::string(100, 'x')).c_str(), 1);
  EXPECT_EQ(MpsFolder::path_of("abc").parent_path(), "/tmp");
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(MpsFolder::path_of("abc").parent_path(), "/tmp");
}

}  // namespace
}  // namespace tandem
