#include "base/heartbeat.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/file_work.h"
#include "base/last_words.h"
#include "base/process_place.h"
#include "base/standstill.h"

namespace tandem {
namespace {

std::atomic<std::uint64_t> g_beats{0};

/// By which a silence may exceed the longest one before it.
constexpr double factor = 10.0;

double limit_of(double timeout_seconds, int rank) {
  if (timeout_seconds == 0.0) return 0.0;
  return in_turn(longest_standstill(Standstill::Seconds(timeout_seconds)).count(), rank);
}

}  // namespace

void heartbeat() noexcept { g_beats.fetch_add(1, std::memory_order_relaxed); }

void beat_until_writable(int descriptor) noexcept {
  constexpr int interval_ms = 100;
  pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
  for (;;) {
    const int found = ::poll(&room, 1, interval_ms);
    if (found != 0 && !(found < 0 && errno == EINTR)) return;
    heartbeat();
    file_moved();  // work on files may have something to say
  }
}

struct HeartbeatWatch::State {
  double limit_seconds = 0.0;
  double start_seconds = 0.0;
  std::atomic<int> phases_begun{0};
  std::atomic<bool> ended{false};

  void look();
  void set_advice(std::string text) {
    const std::scoped_lock lock(mutex);
    advice = std::move(text);
  }
  std::string line(double limit) {
    const std::scoped_lock lock(mutex);
    return fmt::format(
        "nothing has moved for {:g} s, and no other rank is waited for; look what process {} is "
        "at, or raise parallel.timeout_seconds ({}){}",
        limit, ::getpid(), process_place(), advice);
  }

 private:
  std::mutex mutex;
  std::string advice;
};

HeartbeatWatch::HeartbeatWatch(double timeout_seconds, int rank, double start_seconds)
    : state_(std::make_shared<State>()) {
  state_->limit_seconds = limit_of(timeout_seconds, rank);
  state_->start_seconds = in_turn(start_seconds, rank);
  if (state_->limit_seconds == 0.0) return;
  const BlockedSignals blocked;
  std::thread([state = state_] { state->look(); }).detach();
}

HeartbeatWatch::~HeartbeatWatch() { state_->ended = true; }

void HeartbeatWatch::begin_phase(std::string advice) {
  state_->set_advice(std::move(advice));
  ++state_->phases_begun;
  heartbeat();
}

void HeartbeatWatch::State::look() {
  constexpr std::chrono::milliseconds interval(100);
  Standstill standstill(Standstill::Clock::now());
  int phase = 0;
  double longest = 0.0;  // of those that are over, in this phase
  double silence = 0.0;
  std::uint64_t before = g_beats;
  for (;;) {
    std::this_thread::sleep_for(interval);
    if (ended) return;
    const std::uint64_t now = g_beats;
    const bool still = std::exchange(before, now) == now;
    if (!still) longest = std::max(longest, silence);
    if (phases_begun != phase) {
      phase = phases_begun;
      longest = 0.0;
    }
    silence = standstill.look(still, Standstill::Clock::now()).count();
    const double least = phase == 0 ? std::max(limit_seconds, start_seconds) : limit_seconds;
    const double limit = std::max(least, factor * longest);
    if (silence <= limit) continue;
    leave_last_words(line(limit), std::chrono::milliseconds(0));
    return;
  }
}

}  // namespace tandem
