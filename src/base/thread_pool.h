#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

/// A fixed number of worker threads that run submitted tasks in the order of submission (several at
/// once). For work beside the training step, such as decoding; the step's own kernels use OpenMP.
///
/// A task must not throw: what it throws ends the program. Catch inside and hand the exception on.
class ThreadPool {
 public:
  /// `threads` >= 1. Throws std::system_error where the system has no room for as many.
  explicit ThreadPool(int threads);
  /// Drops tasks that have not started and waits for those that have.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void submit(std::function<void()> task);
  int size() const { return static_cast<int>(workers_.size()); }

 private:
  void work();
  void stop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tandem
