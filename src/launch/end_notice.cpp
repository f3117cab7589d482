#include "launch/end_notice.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/exit_code.h"
#include "launch/holds_within.h"

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

bool is_from_this_user(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == ::geteuid();
  }
  return false;
}

}  // namespace

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
}

void EndNotices::count(int code) {
  if (code == ExitCode::stopped) {
    stopped_ = true;
  } else if (failure_ == 0 || code == ExitCode::bad_input) {
    failure_ = code;
  }
}

void EndNotices::take() {
  // Any user of this host can send more, for ever.
  constexpr int most = 64;
  for (int taken = 0; socket_ >= 0 && taken < most; ++taken) {
    unsigned char byte = 0;
    iovec place{&byte, sizeof byte};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket_, &message, 0) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (is_from_this_user(message) && byte != 0) count(byte);
  }
}

void notify_end(const std::string& job, int code) {
  const int socket = make_socket();
  if (socket < 0) return;
  const Address address = address_of(job);
  const auto byte = static_cast<unsigned char>(code);
  // Only a few notices wait to be taken. Where nobody listens there is nobody to be told.
  holds_within(1.0, std::chrono::milliseconds(20), [&] {
    return ::sendto(socket, &byte, sizeof byte, 0, address.get(), address.size) >= 0 ||
           errno != EAGAIN;
  });
  ::close(socket);
}

void notify_end_at_exit(const std::string& job, int code) {
  struct Notice {
    std::string job;
    int code;

    Notice(std::string name, int number) : job(std::move(name)), code(number) {}
    ~Notice() { notify_end(job, code); }
    Notice(const Notice&) = delete;
    Notice& operator=(const Notice&) = delete;
  };
  static const Notice notice(job, code);
}

}  // namespace tandem
