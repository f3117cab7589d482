#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/philox.h"
#include "device/cuda_graph.h"
#include "parallel/device_test.h"
#include "parallel/stream_watch.h"

// What is tested of attached arenas (Communicator::attach) wherever GPUs sum slices of such.

namespace tandem {

struct ArenaSlice {
  std::int64_t offset;
  std::int64_t elements;
};

/// What ranks compute in rounds, and what is found where the sums of it are.
struct ArenaRounds {
  std::span<const ArenaSlice> slices;  ///< in the order of their places, with gaps
  std::int64_t elements;               ///< of the arena
  float (*value)(int rank, std::int64_t i, int round);
  float (*sum)(std::int64_t i, int round);  ///< in a slice
  float (*gap)(std::int64_t i, int round);  ///< between slices

  std::vector<float> values_of(int rank, std::int64_t count, int round) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(i)] = value(rank, i, round);
    }
    return values;
  }
  bool in_slice(std::int64_t i) const {
    return std::ranges::any_of(slices, [&](const ArenaSlice& slice) {
      return i >= slice.offset && i < slice.offset + slice.elements;
    });
  }
  void expect_sums(const std::vector<float>& found, int round) const {
    std::int64_t i = 0;
    for (const ArenaSlice& slice : slices) {
      for (; i < slice.offset; ++i) {
        ASSERT_EQ(found[static_cast<std::size_t>(i)], gap(i, round)) << "gap at " << i;
      }
      for (; i < slice.offset + slice.elements; ++i) {
        ASSERT_EQ(found[static_cast<std::size_t>(i)], sum(i, round))
            << "element " << i << ", round " << round;
      }
    }
  }
};

/// Sleeps now and then, each rank at other times.
inline void dawdle(RandomStream& random) {
  if (random.uniform() > 0.3F) return;
  const auto most = 3000.0F * random.uniform();
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(most)));
}

/// An arena, attached while this lives.
class SlicedArena {
 public:
  explicit SlicedArena(const ArenaRounds& rounds)
      : rounds_(rounds),
        arena_(std::vector<float>(static_cast<std::size_t>(rounds.elements))),
        sums_(gpus().attach(arena_.tensor(DType::f32))) {}
  ~SlicedArena() { gpus().detach(arena_.tensor(DType::f32)); }
  SlicedArena(const SlicedArena&) = delete;
  SlicedArena& operator=(const SlicedArena&) = delete;

  /// Enqueues the sums of all slices.
  void sum_slices() const {
    std::vector<std::unique_ptr<Request>> requests;
    for (const ArenaSlice& slice : rounds_.slices) {
      requests.push_back(gpus().sum_attached_async(
          Tensor(arena_.data() + slice.offset, {slice.elements}), "slice"));
    }
    for (const auto& request : requests) request->wait();
  }
  /// Enqueues a copy of the first `width` of each `pitch` sums.
  void copy_rows(std::int64_t width, std::int64_t pitch, float* to) const {
    enqueue_copy_of_rows(sums_.data<float>(), rounds_.elements, width, pitch, to);
  }
  /// After everything that was enqueued.
  std::vector<float> sums() const {
    wait_for_device(gpus(), gpu(), "sums");
    std::vector<float> found(static_cast<std::size_t>(rounds_.elements));
    copy_to_host(gpu(), sums_.raw(), found.size() * sizeof(float), found.data());
    return found;
  }
  const OnGpu<float>& arena() const { return arena_; }
  /// Where the sums are.
  const void* sums_at() const { return sums_.raw(); }

 private:
  ArenaRounds rounds_;
  OnGpu<float> arena_;
  Tensor sums_;
};

/// Captures attached.sum() and launches it again and again, behind attached.compute() of the
/// rounds' values in turn, without waiting in between; expects each launch's sums.
template <typename Attached>
void expect_sums_of_launches_in_a_row(const ArenaRounds& rounds, Attached& attached) {
  constexpr int launches = 50;
  constexpr int different = 3;
  // Of each launch's sums some are kept.
  constexpr std::int64_t width = 16;
  constexpr std::int64_t pitch = 4096;
  const std::int64_t kept = rounds.elements / pitch * width;
  std::vector<float> values;
  for (int round = 0; round < different; ++round) {
    const std::vector<float> more = rounds.values_of(gpus().rank(), rounds.elements, round);
    values.insert(values.end(), more.begin(), more.end());
  }
  const OnGpu<float> computed(values);
  const OnGpu<float> saved(std::vector<float>(static_cast<std::size_t>(launches * kept)));
  attached.sum();
  CudaGraph graph(gpu(), [&] { attached.sum(); });
  for (int launch = 0; launch < launches; ++launch) {
    attached.compute(computed.data() + launch % different * rounds.elements);
    graph.launch();
    attached.copy_rows(width, pitch, saved.data() + launch * kept);
  }
  rounds.expect_sums(attached.sums(), (launches - 1) % different);
  const std::vector<float> found = saved.get();
  for (std::int64_t k = 0; k < launches * kept; ++k) {
    const int round = static_cast<int>(k / kept) % different;
    const std::int64_t i = k % kept / width * pitch + k % width;
    ASSERT_EQ(found[static_cast<std::size_t>(k)],
              rounds.in_slice(i) ? rounds.sum(i, round) : rounds.gap(i, round))
        << "element " << i << ", launch " << k / kept;
  }
}

}  // namespace tandem
