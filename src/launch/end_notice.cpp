#include "launch/end_notice.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/exit_code.h"
#include "base/host_claims.h"
#include "launch/holds_within.h"
#include "launch/rank_board.h"

namespace tandem {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// In the abstract name space, which a first byte of 0 says.
Address address_of(const std::string& job) {
  const std::string text = fmt::format("tandem-launch-{}-{}", ::geteuid(), job);
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof(address.name.sun_path) - 1);
  std::memcpy(address.name.sun_path + 1, text.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

int make_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/// What comes beside a notice.
struct Enclosed {
  pid_t sender = -1;  // -1: not a process of this user's
  std::vector<int> files{};

  void close_files() {
    for (const int each : files) ::close(each);
    files.clear();
  }
};

/// All of them are this process's by now: any user of this host can send some.
void add_files(cmsghdr* part, std::vector<int>& files) {
  const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
    files.push_back(file);
  }
}

Enclosed read_enclosed(msghdr& message) {
  Enclosed found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      if (sender.uid == ::geteuid()) found.sender = sender.pid;
    } else if (part->cmsg_type == SCM_RIGHTS) {
      add_files(part, found.files);
    }
  }
  return found;
}

}  // namespace

/// Sent as it is, between processes of one program.
struct EndNotice {
  enum class Kind : std::int32_t {
    begin,    ///< of a process that watches `number`, a rank
    end,      ///< of a rank, with code `number`
    failure,  ///< the same of a process that has told of an error of its own
    asked     ///< of a process that watches a rank and was asked to end
  };
  Kind kind;
  std::int32_t number;

  /// `file`: to be enclosed; -1: none. Only a few notices wait to be taken, for which there is
  /// time. Where nobody listens there is nobody to be told.
  void send(const std::string& job, double seconds, int file = -1) const;
};

void EndNotice::send(const std::string& job, double seconds, int file) const {
  const int socket = make_socket();
  if (socket < 0) return;
  const Address address = address_of(job);
  EndNotice copy = *this;
  iovec place{&copy, sizeof copy};
  sockaddr_un name = address.name;
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = address.size;
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof file)> control{};
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(part), &file, sizeof file);
  }
  holds_within(seconds, std::chrono::milliseconds(20),
               [&] { return ::sendmsg(socket, &message, 0) >= 0 || errno != EAGAIN; });
  ::close(socket);
}

EndNotices::EndNotices(const std::string& job) : socket_(make_socket()) {
  if (socket_ < 0) return;
  const int wanted = 1;
  const Address address = address_of(job);
  if (::setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &wanted, sizeof wanted) == 0 &&
      ::bind(socket_, address.get(), address.size) == 0) {
    return;
  }
  ::close(socket_);
  socket_ = -1;
}

EndNotices::~EndNotices() {
  if (socket_ >= 0) ::close(socket_);
  for (const int each : boards_) ::close(each);
}

void EndNotices::count_code(int code) {
  if (code == ExitCode::stopped) {
    stopped_ = true;
  } else if (code != 0 && (failure_ == 0 || code == ExitCode::bad_input)) {
    failure_ = code;
  }
}

void EndNotices::keep_board(int descriptor) {
  // One of all watchers as a rule, or one of each; of as many as there are WatcherList looks after.
  constexpr std::size_t most = 256;
  struct stat facts {};
  const bool known = boards_.size() < most && ::fstat(descriptor, &facts) == 0;
  const bool kept = known && std::ranges::any_of(boards_, [&](int each) {
                      struct stat other {};
                      return ::fstat(each, &other) == 0 && other.st_dev == facts.st_dev &&
                             other.st_ino == facts.st_ino;
                    });
  if (known && !kept) {
    boards_.push_back(descriptor);
  } else {
    ::close(descriptor);
  }
}

void EndNotices::count(const EndNotice& notice, pid_t sender) {
  if (notice.kind == EndNotice::Kind::begin) {
    watchers_.add(sender, notice.number);
    return;
  }
  watchers_.let_go(sender);
  if (notice.kind == EndNotice::Kind::asked) {
    if (!any_ended_) asked_first_ = true;
    ++asked_;
    return;
  }
  any_ended_ = true;
  count_code(notice.number);
  if (notice.kind == EndNotice::Kind::failure) told_ = true;
}

EndNotices::Taken EndNotices::take_one() {
  EndNotice notice{};
  iovec place{&notice, sizeof notice};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) return errno == EINTR ? Taken::others : Taken::nothing;
  Enclosed enclosed = read_enclosed(message);
  // A file of its own may not have arrived, as where this process may open no more: the words
  // count.
  const bool whole = bytes == static_cast<ssize_t>(sizeof notice) && enclosed.files.size() <= 1;
  if (enclosed.sender < 0 || !whole) {
    enclosed.close_files();
    return enclosed.sender < 0 ? Taken::others : Taken::own;
  }
  count(notice, enclosed.sender);
  if (!enclosed.files.empty()) keep_board(enclosed.files.front());
  return Taken::own;
}

bool EndNotices::take_waiting(bool is_rest) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t at_a_time = 64;
  constexpr std::size_t of_a_process =
      4;  // it begins, is asked to end, ends, and tells of an error
  const auto end = Clock::now() + std::chrono::milliseconds(is_rest ? 1000 : 50);
  for (std::size_t taken = 0; socket_ >= 0 && Clock::now() < end;) {
    if (taken >= at_a_time + (is_rest ? of_a_process * watchers_.begun() : 0)) return false;
    const Taken one = take_one();
    if (one == Taken::nothing) return true;
    if (one == Taken::own) ++taken;
  }
  return false;
}

void EndNotices::take() { take_all(false); }

void EndNotices::take_rest() { take_all(true); }

void EndNotices::take_all(bool is_rest) {
  const bool undisturbed = lost_.empty() && failure_ == 0 && !stopped_;
  // In this order: who has ended by now has said before what it had to.
  const std::vector<pid_t> ended = watchers_.ended();
  const bool all = take_waiting(is_rest);
  if (undisturbed && all) lost_ = with_places(watchers_.lost(ended));
}

std::vector<LostWatcher> EndNotices::with_places(std::vector<LostWatcher> lost) const {
  for (LostWatcher& each : lost) {
    for (const int board : boards_) {
      const auto place = RankBoard::place_in_file(board, each.rank);
      if (!place) continue;
      each.device = place->device;
      each.step = place->step;
    }
  }
  return lost;
}

bool EndNotices::told() const {
  return told_ || std::ranges::any_of(boards_, [](int each) {
           HostClaims claims;
           return ::pread(each, static_cast<void*>(&claims), sizeof claims, 0) ==
                      static_cast<ssize_t>(sizeof claims) &&
                  claims.is_claimed(HostClaim::told_error);
         });
}

void notify_begin(const std::string& job, int rank, int claims) {
  // No rank is kept from its start by a launcher that is stopped.
  EndNotice{.kind = EndNotice::Kind::begin, .number = rank}.send(job, 0.5, claims);
}

AskedToEndNotice::AskedToEndNotice(const std::string& job)
    : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  if (socket_ < 0) return;
  // Only a few notices wait to be taken, and all watchers of a host send this one together.
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  const Address address = address_of(job);
  if (::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
      ::connect(socket_, address.get(), address.size) == 0) {
    return;
  }
  ::close(socket_);
  socket_ = -1;
}

AskedToEndNotice::~AskedToEndNotice() {
  if (socket_ >= 0) ::close(socket_);
}

void AskedToEndNotice::send(int socket) {
  const EndNotice notice{.kind = EndNotice::Kind::asked, .number = 0};
  // Where nobody listens any more there is nobody to be told.
  static_cast<void>(::send(socket, &notice, sizeof notice, MSG_NOSIGNAL));
}

void notify_end(const std::string& job, int code) {
  EndNotice{.kind = EndNotice::Kind::end, .number = code}.send(job, 1.0);
}

void notify_end_at_exit(const std::string& job, int code) {
  struct Notice {
    std::string job;
    int code;

    Notice(std::string name, int number) : job(std::move(name)), code(number) {}
    ~Notice() { EndNotice{.kind = EndNotice::Kind::failure, .number = code}.send(job, 1.0); }
    Notice(const Notice&) = delete;
    Notice& operator=(const Notice&) = delete;
  };
  static const Notice notice(job, code);
}

}  // namespace tandem
