#include "base/last_words.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
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
    if (due_) begin_patience();
  }

  void set_speaker(std::chrono::milliseconds patience, SpeakLastWords speak) {
    const std::scoped_lock lock(mutex_);
    patience_ = patience;
    speak_ = std::move(speak);
  }

  bool are_left() {
    const std::scoped_lock lock(mutex_);
    return due_.has_value();
  }

  void silence() {
    const std::scoped_lock lock(mutex_);
    speak_ = nullptr;
    due_.reset();
    changed_.notify_all();
  }

 private:
  void begin_patience() {
    due_ = Clock::now() + patience_;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (speak_) {
      if (!due_) {
        changed_.wait(lock);
        continue;
      }
      const Clock::time_point due = held_ > 0 ? *due_ + LastWordsHeld::longest : *due_;
      if (Clock::now() >= due) break;
      changed_.wait_until(lock, due);
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
  std::optional<Clock::time_point> due_;
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
