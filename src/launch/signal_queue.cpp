#include "launch/signal_queue.h"

#include <array>
#include <ctime>

#include "base/error.h"

namespace tandem {
namespace {

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

}  // namespace

bool is_ignored(int number) {
  struct sigaction action {};
  TANDEM_CHECK(::sigaction(number, nullptr, &action) == 0, "signal {} is unknown", number);
  return action.sa_handler == SIG_IGN;
}

SignalQueue::SignalQueue() {
  sigemptyset(&taken_);
  for (const int number : stop_signals) {
    // Blocked, an ignored signal would wait to be taken all the same.
    if (!is_ignored(number)) sigaddset(&taken_, number);
  }
  sigaddset(&taken_, SIGCHLD);
  blocked_ = taken_;
  sigaddset(&blocked_, SIGPIPE);
  TANDEM_CHECK(::sigprocmask(SIG_BLOCK, &blocked_, &before_) == 0, "signals cannot be blocked");
}

SignalQueue::~SignalQueue() {
  const timespec none{};
  while (::sigtimedwait(&blocked_, nullptr, &none) > 0) {
  }
  // Fails for wrong arguments only.
  static_cast<void>(::sigprocmask(SIG_SETMASK, &before_, nullptr));
}

int SignalQueue::take(std::chrono::milliseconds patience) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const std::chrono::nanoseconds rest = patience - seconds;
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  const int number = ::sigtimedwait(&taken_, nullptr, &time);
  return number > 0 && number != SIGCHLD ? number : 0;
}

}  // namespace tandem
