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
  State(double timeout_seconds, int of_rank, double least_at_start)
      : least_seconds(longest_standstill(Standstill::Seconds(timeout_seconds)).count()),
        start_seconds(std::max(least_seconds, least_at_start)),
        rank(of_rank) {}

  const double least_seconds;
  const double start_seconds;
  const int rank;
  std::atomic<int> phases_begun{0};
  std::atomic<bool> ended{false};

  void look();
  /// Whichever rule it comes from, it is this rank's turn then: what all ranks stand still in, they
  /// mostly came to by the same silences. `longest`: of those before in the phase.
  double limit(int phase, double longest) const {
    return in_turn(silence_limit(phase == 0 ? start_seconds : least_seconds, longest), rank);
  }
  void set_advice(std::string text) {
    const std::scoped_lock lock(mutex_);
    advice_ = std::move(text);
  }
  std::string line(double silence) {
    const std::scoped_lock lock(mutex_);
    return fmt::format(
        "nothing has moved for {:g} s, and no other rank is waited for; look what process {} is "
        "at, or raise parallel.timeout_seconds ({}){}",
        silence, ::getpid(), process_place(), advice_);
  }

 private:
  std::mutex mutex_;
  std::string advice_;
};

HeartbeatWatch::HeartbeatWatch(double timeout_seconds, int rank, double start_seconds)
    : state_(std::make_shared<State>(timeout_seconds, rank, start_seconds)) {
  if (timeout_seconds == 0.0) return;
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
    const double most = limit(phase, longest);
    if (silence <= most) continue;
    leave_last_words(line(most), std::chrono::milliseconds(0));
    return;
  }
}

}  // namespace tandem
