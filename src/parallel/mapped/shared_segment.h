#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// How large a segment is: `fixed` bytes and, as far as there is room, up to `most` times `each`.
struct SegmentSize {
  std::size_t fixed;
  std::size_t each;
  std::int64_t most;
  std::int64_t least;
};

/// Zeroed POSIX shared memory that the ranks of one host have in common: a file on /dev/shm, as
/// shm_open() makes them. Its name is random, and gone as soon as all of them have mapped it, so
/// that the kernel takes the memory back when the last of them ends, however it ends.
class SharedSegment {
 public:
  /// Collective over `world`; the first rank of each host makes what its host shares. Where
  /// /dev/shm is small the count of `size.each` is halved until it fits beside others. Throws
  /// InputError on all ranks where that does not help, or where a rank of a host sees another
  /// /dev/shm.
  SharedSegment(Communicator& world, const RankTopology& topology, const SegmentSize& size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  /// How many times `each` there is; may differ between hosts.
  std::int64_t count() const { return count_; }

 private:
  void unmap();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace tandem
