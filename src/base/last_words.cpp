#include "base/last_words.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

class LastWords {
 public:
  bool leave(const std::string& words, std::chrono::milliseconds grace) {
    const std::scoped_lock lock(mutex_);
    if (!speak_) return spoken_;
    if (!waiting_) {
      const BlockedSignals blocked;
      std::thread([this] { wait(); }).detach();
      waiting_ = true;
    }
    words_ = words;
    grace_ = grace;
    begin_patience();
    return true;
  }

  void hold(int more) {
    const std::scoped_lock lock(mutex_);
    held_ += more;
    if (left_) begin_patience();
  }

  void set_speaker(std::chrono::milliseconds patience, SpeakLastWords speak) {
    const std::scoped_lock lock(mutex_);
    patience_ = patience;
    speak_ = std::move(speak);
  }

  bool are_left() {
    const std::scoped_lock lock(mutex_);
    return left_;
  }

  void silence() {
    const std::scoped_lock lock(mutex_);
    speak_ = nullptr;
    left_ = false;
    changed_.notify_all();
  }

 private:
  void begin_patience() {
    left_ = true;
    waited_ = Clock::duration::zero();
    changed_.notify_all();
  }

  /// However long that takes: where this process stands still or gets no core, whoever is on the
  /// way to main() is as late.
  void wait_a_little(std::unique_lock<std::mutex>& lock) {
    const Clock::duration part =
        std::max<Clock::duration>(patience_ / 10, std::chrono::milliseconds(1));
    if (changed_.wait_for(lock, part) == std::cv_status::timeout) waited_ += part;
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (speak_) {
      if (!left_) {
        changed_.wait(lock);
        continue;
      }
      const Clock::duration longest =
          held_ > 0 ? patience_ + LastWordsHeld::longest : Clock::duration(patience_);
      if (waited_ >= longest) break;
      wait_a_little(lock);
    }
    waiting_ = false;
    if (!speak_) return;
    spoken_ = true;
    const auto speak = std::exchange(speak_, nullptr);
    const std::string words = words_;
    const std::chrono::milliseconds grace = grace_;
    lock.unlock();
    speak(words, grace);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds patience_{0};
  SpeakLastWords speak_;  // empty where nobody does, or has done so
  std::string words_;
  std::chrono::milliseconds grace_{0};
  bool left_ = false;          // some are, and are to be spoken
  Clock::duration waited_{0};  // since they were left, or somebody took hold of them, or let go
  int held_ = 0;
  bool waiting_ = false;
  bool spoken_ = false;
};

/// Never destroyed, since its thread may outlive what is.
LastWords& last_words() {
  static auto* const words = new LastWords;
  return *words;
}

}  // namespace

bool leave_last_words(const std::string& words, std::chrono::milliseconds grace) noexcept {
  try {
    return last_words().leave(words, grace);
  } catch (const std::exception&) {  // no memory, or no thread: main() is left to tell it
    return false;
  }
}

LastWordsHeld::LastWordsHeld() noexcept { last_words().hold(1); }
LastWordsHeld::~LastWordsHeld() { last_words().hold(-1); }

void speak_last_words(std::chrono::milliseconds patience, SpeakLastWords speak) {
  last_words().set_speaker(patience, std::move(speak));
}

bool last_words_are_left() noexcept { return last_words().are_left(); }

void silence_last_words() noexcept { last_words().silence(); }

}  // namespace tandem
