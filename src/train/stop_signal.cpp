#include "train/stop_signal.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "base/error.h"
#include "parallel/host_processes.h"

namespace tandem {
namespace {

// A handler reaches nothing but static storage.
std::atomic<int> g_signal{0};
std::atomic<std::int64_t> g_first_time{0};
std::atomic<bool> g_installed{false};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

std::int64_t now() {
  timespec time{};
  // Cannot fail for this clock and a valid address; it is on POSIX's async-signal-safe list.
  static_cast<void>(::clock_gettime(CLOCK_MONOTONIC, &time));
  return std::int64_t{time.tv_sec} * nanoseconds_per_second + time.tv_nsec;
}

void handle(int signal_number) {
  const int saved_errno = errno;
  // SIGUSR1 asks, and nobody is killed for it; after the others a launcher kills who is slow.
  if (signal_number != SIGUSR1) explain_own_end();
  std::int64_t first_time = 0;
  // The time goes first and by exchange: whichever thread's signal sets it is the first one.
  if (g_first_time.compare_exchange_strong(first_time, now())) {
    g_signal = signal_number;
  } else if (signal_number != SIGUSR1 && now() - first_time > nanoseconds_per_second) {
    // Never for SIGUSR1, by which a launcher asks: it may come on two ways, one of them slow.
    // Blocked while this handler runs, so the default action comes as it returns.
    ::signal(signal_number, SIG_DFL);
    ::raise(signal_number);
  }
  errno = saved_errno;
}

void catch_unless_ignored(int number, const struct sigaction& action, struct sigaction& previous) {
  TANDEM_CHECK(::sigaction(number, nullptr, &previous) == 0, "cannot ask for signal {}", number);
  if (previous.sa_handler == SIG_IGN) return;
  TANDEM_CHECK(::sigaction(number, &action, nullptr) == 0, "cannot catch signal {}", number);
}

}  // namespace

StopSignal::StopSignal(Hangup hangup) : hangup_(hangup) {
  TANDEM_CHECK(!g_installed.exchange(true), "two StopSignals live at the same time");
  g_first_time = 0;
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  catch_unless_ignored(SIGINT, action, previous_interrupt_);
  catch_unless_ignored(SIGTERM, action, previous_terminate_);
  if (hangup_ == Hangup::stops) catch_unless_ignored(SIGHUP, action, previous_hangup_);
  TANDEM_CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0, "cannot catch SIGUSR1");
}

StopSignal::~StopSignal() {
  // Fails for wrong arguments only, and these came from the same call.
  static_cast<void>(::sigaction(SIGINT, &previous_interrupt_, nullptr));
  static_cast<void>(::sigaction(SIGTERM, &previous_terminate_, nullptr));
  if (hangup_ == Hangup::stops) {
    static_cast<void>(::sigaction(SIGHUP, &previous_hangup_, nullptr));
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  static_cast<void>(::sigaction(SIGUSR1, &ignore, nullptr));
  g_installed = false;
}

bool StopSignal::requested() const { return g_signal != 0; }

int StopSignal::signal_number() const { return g_signal; }

std::string_view StopSignal::signal_name() const {
  switch (g_signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "";
  }
}

}  // namespace tandem
