#include "cli/failure.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "device/device_error.h"
#include "parallel/host_processes.h"
#include "support/report_file.h"

// Which process of a job tells an error, where another one has met its cause.

namespace tandem {
namespace {

/// A rank in a process of its own, which a parent watches, and whose command ends with a fault.
template <typename Fault = DeviceError>
class FaultyRank {
 public:
  FaultyRank() {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) std::abort();
    process_ = ::fork();
    if (process_ == 0) fail(pipe[1]);
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~FaultyRank() { ::close(output_); }
  FaultyRank(const FaultyRank&) = delete;
  FaultyRank& operator=(const FaultyRank&) = delete;

  HostClaims& claims() const { return file_.claims(); }

  /// All that it says until its end.
  std::string words() const {
    std::string words;
    std::array<char, 4096> part{};
    for (ssize_t count = 0; (count = ::read(output_, part.data(), part.size())) > 0;) {
      words.append(part.data(), static_cast<std::size_t>(count));
    }
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    return words;
  }

 private:
  [[noreturn]] void fail(int output) const {
    const auto variable = report_variable(file_.descriptor(), 64);
    ::setenv(variable.first.c_str(), variable.second.c_str(), 1);
    ::dup2(output, STDERR_FILENO);
    try {
      throw Fault("the device failed");
    } catch (const Error&) {
      ::_exit(end_failed(nullptr));
    }
  }

  ReportFile file_{"tandem-ranks-test"};
  pid_t process_ = -1;
  int output_ = -1;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(DeviceFaultOfARank, IsToldByItselfOnceNoOtherCanHaveBeenKilled) {
  const auto start = std::chrono::steady_clock::now();
  const FaultyRank rank;
  EXPECT_EQ(rank.words(), "error: the device failed\n");
  EXPECT_GT(seconds_since(start), 0.9 * killed_rank_patience(0.0).count());
}

TEST(OtherFaultOfARank, IsToldAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const FaultyRank<SystemError> rank;
  EXPECT_EQ(rank.words(), "error: the device failed\n");
  EXPECT_LT(seconds_since(start), 0.9 * killed_rank_patience(0.0).count());
}

// Others may meet that its memory is gone before the watcher of a killed rank sees its end.
TEST(DeviceFaultOfARank, IsLeftToTheWatcherOfOneThatIsKilled) {
  const FaultyRank rank;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  rank.claims().claim(HostClaim::killed_rank);
  rank.claims().claim(HostClaim::told_error);
  EXPECT_EQ(rank.words(), "");
}

TEST(DeviceFaultOfARank, IsToldWhereNobodyTellsOfTheKilledOne) {
  const FaultyRank rank;
  rank.claims().claim(HostClaim::killed_rank);
  EXPECT_EQ(rank.words(), "error: the device failed\n");
}

TEST(DeviceFaultOfARank, IsToldBeforeOthersStopWaitingForIt) {
  EXPECT_EQ(killed_rank_patience(0.0).count(), 2.0) << "they wait for ever";
  EXPECT_EQ(killed_rank_patience(20.0).count(), 2.0);
  EXPECT_EQ(killed_rank_patience(2.0).count(), 0.5);
}

}  // namespace
}  // namespace tandem
