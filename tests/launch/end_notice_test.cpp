#include "launch/end_notice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_board.h"

namespace tandem {
namespace {

/// Of no other run of these tests either.
std::string job_named(const std::string& name) {
  return fmt::format("tests-{}-{}", ::getpid(), name);
}

/// Of what has come so far.
int failure_in(EndNotices& notices) {
  notices.take();
  return notices.failure();
}

TEST(EndNotices, AreHeardOfTheirJobAlone) {
  EndNotices mine(job_named("mine"));
  EndNotices other(job_named("other"));
  EXPECT_EQ(failure_in(mine), 0);
  notify_end(job_named("mine"), 137);
  EXPECT_EQ(failure_in(mine), 137);
  EXPECT_EQ(failure_in(mine), 137) << "it stays so";
  EXPECT_EQ(failure_in(other), 0);
  notify_end(job_named("none"), 1);  // of which there is no launcher here
}

TEST(EndNotices, TellTheFirstCodeAndBadInputBeforeAll) {
  EndNotices notices(job_named("codes"));
  notify_end(job_named("codes"), 137);
  notify_end(job_named("codes"), 1);
  EXPECT_EQ(failure_in(notices), 137);
  notify_end(job_named("codes"), 2);
  notify_end(job_named("codes"), 1);
  EXPECT_EQ(failure_in(notices), 2);
}

TEST(EndNotices, TellAStopFromAFailure) {
  EndNotices notices(job_named("stop"));
  EXPECT_FALSE(notices.stopped());
  notify_end(job_named("stop"), 75);
  EXPECT_EQ(failure_in(notices), 0);
  EXPECT_TRUE(notices.stopped());
  notify_end(job_named("stop"), 1);
  EXPECT_EQ(failure_in(notices), 1);
}

/// As an EndNotice is sent.
struct RawNotice {
  std::int32_t kind;  // 0: begin, 1: end
  std::int32_t number;
};

/// Any process's, of whatever user, to the launcher of user `owner`'s job, with these files beside
/// it.
void send_raw(uid_t owner, const std::string& job, RawNotice notice,
              const std::vector<int>& files = {}) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(socket, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("tandem-launch-{}-{}", owner, job);
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  iovec place{&notice, sizeof notice};
  std::vector<char> control(CMSG_SPACE(files.size() * sizeof(int)));
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), files.data(), files.size() * sizeof(int));
  }
  EXPECT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof notice))
      << std::strerror(errno);
  ::close(socket);
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

TEST(EndNotices, KeepNoFileButASoleOne) {
  const std::string job = job_named("files");
  EndNotices notices(job);
  const int file = ::memfd_create("file", MFD_CLOEXEC);
  const std::ptrdiff_t before = open_descriptors();
  for (const std::size_t count : {2, 3, 8}) {
    send_raw(::geteuid(), job, {.kind = 1, .number = 1}, std::vector<int>(count, file));
    EXPECT_EQ(failure_in(notices), 0) << count;
    EXPECT_EQ(open_descriptors(), before) << count;
  }
  send_raw(::geteuid(), job, {.kind = 1, .number = 1}, {file});
  EXPECT_EQ(failure_in(notices), 1);
  EXPECT_EQ(open_descriptors(), before + 1);
  ::close(file);
}

TEST(EndNotices, KeepUpToANumberOfFiles) {
  const std::string job = job_named("boards");
  EndNotices notices(job);
  const std::ptrdiff_t before = open_descriptors();
  for (int sent = 0; sent < 300; ++sent) {
    const int file = ::memfd_create("file", MFD_CLOEXEC);
    send_raw(::geteuid(), job, {.kind = 1, .number = 0}, {file});
    ::close(file);
    notices.take();
  }
  EXPECT_EQ(open_descriptors(), before + 256);
}

/// Lets more notices wait than most kernels do, in a network of this process alone. Returns whether
/// that can be had here.
bool make_room_for_notices() {
  // Another user's processes are there for root alone, in no name space of users.
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  std::ofstream room("/proc/sys/net/unix/max_dgram_qlen");
  room << 1000 << std::flush;
  return room.good();
}

/// What the test says in a process of its own for which more notices wait; nothing where that
/// cannot be had.
std::optional<bool> holds_with_room_for_notices(const std::function<bool()>& test) {
  constexpr int no_room = 3;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!make_room_for_notices()) std::_Exit(no_room);
    std::_Exit(test() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == no_room) return std::nullopt;
  return status == 0;
}
constexpr const char* no_namespaces = "no namespaces for this user";

// A look at them ends, however fast somebody sends more.
TEST(EndNotices, AreTakenUpToANumberAtATime) {
  const auto test = [] {
    EndNotices notices(job_named("many"));
    for (int sent = 0; sent < 64; ++sent) notify_end(job_named("many"), 1);
    notify_end(job_named("many"), 2);
    return failure_in(notices) == 1 && failure_in(notices) == 2;
  };
  const std::optional<bool> holds = holds_with_room_for_notices(test);
  if (!holds) GTEST_SKIP() << no_namespaces;
  EXPECT_TRUE(*holds);
}

// However many processes have told of their end since the last look.
TEST(EndNotices, AreTakenToTheLastOnceTheJobHasEnded) {
  const auto test = [] {
    const std::string job = job_named("rest");
    EndNotices notices(job);
    for (int rank = 0; rank < 30; ++rank) notify_begin(job, rank, -1);
    for (int sent = 0; sent < 60; ++sent) notify_end(job, 1);
    notify_end(job, 2);
    notices.take_rest();
    return notices.failure() == 2;
  };
  const std::optional<bool> holds = holds_with_room_for_notices(test);
  if (!holds) GTEST_SKIP() << no_namespaces;
  EXPECT_TRUE(*holds);
}

/// Another user's process, which sends so many datagrams to the job of user `owner`.
pid_t other_user(uid_t owner, const std::string& job, int times) {
  constexpr uid_t nobody = 65534;
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::setuid(nobody) != 0) std::_Exit(1);
  for (int sent = 0; sent < times; ++sent) {
    send_raw(owner, job, {.kind = 1, .number = 2});
  }
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(EndNotices, ComeBehindAnyNumberOfOtherUsersDatagrams) {
  if (::geteuid() != 0) GTEST_SKIP() << "no other users for this one";
  const auto test = [] {
    const std::string job = job_named("others");
    EndNotices notices(job);
    int sent = -1;
    if (::waitpid(other_user(::geteuid(), job, 500), &sent, 0) < 0 || sent != 0) return false;
    notify_end(job, 1);
    return failure_in(notices) == 1;
  };
  const std::optional<bool> holds = holds_with_room_for_notices(test);
  if (!holds) GTEST_SKIP() << no_namespaces;
  EXPECT_TRUE(*holds);
}

TEST(EndNotices, CanBeSentAtTheEndOfAProcess) {
  const std::string job = job_named("exit");
  EndNotices notices(job);
  const pid_t rank = ::fork();
  ASSERT_GE(rank, 0);
  if (rank == 0) {
    notify_end_at_exit(job, 2);
    std::exit(failure_in(notices) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(rank, &status, 0), rank);
  EXPECT_EQ(status, 0) << "it came too early";
  EXPECT_EQ(failure_in(notices), 2);
}

/// Another process of the job, which does `work`; returns its id once it has ended.
pid_t ended_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::_Exit(0);
  }
  // Its end is taken notice of later: until then the id is nobody else's.
  siginfo_t facts{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child), &facts, WEXITED | WNOWAIT), 0);
  return child;
}

TEST(EndNotices, NameTheFirstWatcherThatEndsWithoutAWord) {
  const std::string job = job_named("watchers");
  EndNotices notices(job);
  EXPECT_TRUE(notices.listens());
  EXPECT_FALSE(notices.begun());
  const auto begin = [&](int rank) { notify_begin(job, rank, -1); };
  const pid_t good = ended_process([&] {
    begin(0);
    notify_end(job, 0);
  });
  notices.take();
  EXPECT_TRUE(notices.begun());
  EXPECT_TRUE(notices.lost().empty());
  const pid_t first = ended_process([&] { begin(1); });
  notices.take();  // which learns of it
  notices.take();
  const pid_t later = ended_process([&] { begin(2); });
  notices.take();
  notices.take();
  ASSERT_EQ(notices.lost().size(), 1U) << "the job's end takes the others along";
  EXPECT_EQ(notices.lost()[0].rank, 1);
  EXPECT_EQ(notices.lost()[0].process, first);
  EXPECT_FALSE(notices.told());
  for (const pid_t each : {good, first, later}) ::waitpid(each, nullptr, 0);
}

TEST(EndNotices, TakeAnEndBehindAFailureForTheJobs) {
  const std::string job = job_named("behind");
  EndNotices notices(job);
  const pid_t watcher = ended_process([&] {
    notify_begin(job, 1, -1);
    notify_end(job, 1);
    notify_begin(job, 0, -1);
  });
  notices.take();
  notices.take();
  EXPECT_TRUE(notices.lost().empty());
  ::waitpid(watcher, nullptr, 0);
}

/// A watcher that is killed behind being asked to end.
pid_t asked_process(const std::string& job, int rank) {
  return ended_process([&] {
    notify_begin(job, rank, -1);
    AskedToEndNotice::send(AskedToEndNotice(job).socket());
  });
}

TEST(EndNotices, NameNoWatcherThatWasAskedToEnd) {
  const std::string job = job_named("asked");
  EndNotices notices(job);
  const pid_t first = asked_process(job, 0);
  const pid_t second = asked_process(job, 1);
  notices.take();
  notices.take();
  EXPECT_TRUE(notices.lost().empty());
  EXPECT_TRUE(notices.ended_from_outside());
  for (const pid_t each : {first, second}) ::waitpid(each, nullptr, 0);
}

// As mpirun ends the others where a rank has left without MPI_Finalize, with code 0.
TEST(EndNotices, TakeWatchersAskedToEndBehindARanksEndForTheJobs) {
  const std::string job = job_named("left");
  EndNotices notices(job);
  notify_end(job, 0);
  const pid_t other = asked_process(job, 1);
  notices.take();
  notices.take();
  EXPECT_TRUE(notices.lost().empty());
  EXPECT_FALSE(notices.ended_from_outside());
  ::waitpid(other, nullptr, 0);
}

TEST(EndNotices, NameTheWatcherForWhichOthersWereAskedToEnd) {
  const std::string job = job_named("for_one");
  EndNotices notices(job);
  const pid_t lost = ended_process([&] { notify_begin(job, 0, -1); });
  const pid_t other = asked_process(job, 1);
  notices.take();
  notices.take();
  ASSERT_EQ(notices.lost().size(), 1U);
  EXPECT_EQ(notices.lost()[0].process, lost);
  EXPECT_FALSE(notices.ended_from_outside());
  for (const pid_t each : {lost, other}) ::waitpid(each, nullptr, 0);
}

TEST(EndNotices, KnowWhetherAnErrorWasTold) {
  const std::string job = job_named("told");
  EndNotices notices(job);
  RankBoard board({.job = job}, 0);
  notify_begin(job, 0, board.claims_descriptor());
  notices.take();
  EXPECT_FALSE(notices.told());
  board.claims().claim(HostClaim::told_error);
  EXPECT_TRUE(notices.told());
}

}  // namespace
}  // namespace tandem
