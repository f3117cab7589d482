#include "base/file_work.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/last_words.h"
#include "base/process_place.h"

namespace tandem {
namespace {

thread_local FileWork* t_work = nullptr;

std::string timeout_text(const std::string& file, double seconds, const FilePatience& patience) {
  return fmt::format(
      "{}: waited {:.3g} s for it; look at the disk or the network that it lies on, or raise {} "
      "({}){}",
      file.empty() ? "the run's files" : file, seconds, patience.key, process_place(),
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
  if (t_work == nullptr) return;
  // In this order, and asked for in the other one: who sees no allowance any more sees the move.
  ++t_work->moves_;
  t_work->allowance_ = 0.0;
}

void file_syncs(std::uint64_t bytes) {
  constexpr double least_rate = 16.0 * 1024 * 1024;  // bytes a second
  if (t_work == nullptr) return;
  file_moved();
  t_work->allowance_ = static_cast<double>(bytes) / least_rate;
}

FileTimeout::FileTimeout(const std::string& message, bool last_words)
    : SystemError(message),
      ends_process_(last_words && leave_last_words(what(), std::chrono::milliseconds(0))) {}

FileTask::FileTask(std::function<void()> work) : files_(std::make_shared<FileWork>()) {
  // Of its own, since the end of a thread that hangs cannot be waited for.
  const auto task =
      std::make_shared<std::packaged_task<void()>>([work = std::move(work), files = files_] {
        const FileWork::Told told(*files);
        work();
      });
  done_ = task->get_future();
  try {
    const BlockedSignals blocked;
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error&) {
    (*task)();  // no thread can be started: then nobody waits
  }
}

bool FileTask::done() const {
  return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void FileTask::look(const FilePatience& patience) {
  const double limit = patience.seconds + files_->allowance();
  const std::uint64_t now = files_->moves();
  const bool still = std::exchange(moves_, now) == now;
  const double seconds = standstill_.look(still, Standstill::Clock::now()).count();
  if (patience.seconds == 0.0 || seconds < limit || done()) return;
  const FileTimeout error(timeout_text(files_->file(), limit, patience), patience.last_words);
  // The process ends meanwhile, and until then nothing that `work` uses is given up.
  if (error.ends_process()) done_.wait();
  throw error;
}

void FileTask::wait(const FilePatience& patience, const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds interval(50);
  while (done_.wait_for(interval) != std::future_status::ready) {
    try {
      meanwhile();
    } catch (const std::exception& error) {
      // `work` uses what this error takes down.
      leave_last_words_of_step(error.what());
      done_.wait();
      throw;
    }
    look(patience);
  }
  done_.get();
}

void await_file_work(const FilePatience& patience, const std::function<void()>& work,
                     const std::function<void()>& meanwhile) {
  FileTask(work).wait(patience, meanwhile);
}

}  // namespace tandem
