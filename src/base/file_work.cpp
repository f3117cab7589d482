#include "base/file_work.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/last_words.h"
#include "base/process_place.h"
#include "base/standstill.h"

namespace tandem {
namespace {

thread_local FileWork* t_work = nullptr;

std::string timeout_text(const std::string& file, const FilePatience& patience) {
  return fmt::format(
      "{}: waited {:g} s for it; look at the disk or the network that it lies on, or raise {} "
      "({}){}",
      file.empty() ? "the run's files" : file, patience.seconds, patience.key, process_place(),
      patience.advice);
}

}  // namespace

FileWork::Told::Told(FileWork& work) : before_(std::exchange(t_work, &work)) {}
FileWork::Told::~Told() { t_work = before_; }

std::string FileWork::file() const {
  const std::scoped_lock lock(mutex_);
  return file_;
}

void file_in_hand(const std::filesystem::path& path) {
  if (t_work == nullptr) return;
  {
    const std::scoped_lock lock(t_work->mutex_);
    t_work->file_ = path.string();
  }
  file_moved();
}

void file_moved() {
  if (t_work != nullptr) t_work->moves_.fetch_add(1, std::memory_order_relaxed);
}

FileTimeout::FileTimeout(const std::string& message) : SystemError(message) {
  leave_last_words(what(), std::chrono::milliseconds(0));
}

void await_file_work(const FilePatience& patience, const std::function<void()>& work,
                     const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds interval(50);
  // For last words to end the process, which they do in less; so long nothing that `work` uses is
  // given up.
  constexpr std::chrono::seconds words_turn(3);
  const auto files = std::make_shared<FileWork>();
  // Of its own, since the end of a thread that hangs cannot be waited for.
  std::packaged_task<void()> task([work, files] {
    const FileWork::Told told(*files);
    work();
  });
  std::future<void> done = task.get_future();
  {
    const BlockedSignals blocked;
    std::thread(std::move(task)).detach();
  }
  Standstill standstill(Standstill::Clock::now());
  std::uint64_t before = files->moves();
  while (done.wait_for(interval) != std::future_status::ready) {
    try {
      meanwhile();
    } catch (...) {
      done.wait();  // `work` uses what this error takes down
      throw;
    }
    const std::uint64_t now = files->moves();
    const bool still = std::exchange(before, now) == now;
    const double seconds = standstill.look(still, Standstill::Clock::now()).count();
    if (patience.seconds == 0.0 || seconds < patience.seconds) continue;
    const FileTimeout error(timeout_text(files->file(), patience));
    static_cast<void>(done.wait_for(words_turn));
    throw error;
  }
  done.get();
}

}  // namespace tandem
