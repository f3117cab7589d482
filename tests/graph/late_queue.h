#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "device/side_queue.h"

namespace tandem {

/// Does each piece as late as it may be done: what is to be there by then must have been kept.
class LateQueue final : public SideQueue {
 public:
  explicit LateQueue(std::size_t cache_bytes = 0) : cache_bytes_(cache_bytes) {}

  void run(std::size_t piece, std::function<void()> work) override {
    pending_.push_back({piece, std::move(work)});
  }
  void wait(std::size_t piece) override {
    if (std::ranges::find(pending_, piece, &Piece::index) == pending_.end()) return;
    for (bool found = false; !found; pending_.pop_front()) {
      found = pending_.front().index == piece;
      pending_.front().work();
    }
  }
  std::size_t cache_bytes() const override { return cache_bytes_; }
  bool done() const { return pending_.empty(); }

 private:
  struct Piece {
    std::size_t index;
    std::function<void()> work;
  };
  std::size_t cache_bytes_;
  std::deque<Piece> pending_;
};

}  // namespace tandem
