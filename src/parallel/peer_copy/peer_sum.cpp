#include "parallel/peer_copy/peer_sum.h"

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "parallel/peer_copy/direct_sum.h"

namespace tandem {
namespace {

/// Barriers of the two lanes.
constexpr int on_scatter = 0;
constexpr int on_gather = 1;

void enqueue_copy(const float* from, float* to, std::int64_t elements, cudaStream_t stream) {
  TANDEM_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, stream));
}

}  // namespace

PeerSum::PeerSum(CudaContext& context, CudaEventPool& events, PeerGroup& group,
                 std::int64_t most_direct)
    : context_(context),
      events_(events),
      group_(group),
      most_direct_(most_direct),
      scatter_(group.ranks()),
      gather_(group.ranks()) {}

template <typename Copy>
void PeerSum::copy_to_all(cudaStream_t first, const Lane& lane, const Copy& copy) {
  for (std::size_t i = 0; i < lane.copies.size(); ++i) {
    // Each rank begins with its next one, so that not all copy to the same one first.
    const int peer = (group_.rank() + 1 + static_cast<int>(i)) % group_.ranks();
    const cudaStream_t stream = lane.copies[i].get();
    events_.order(first, stream);
    copy(static_cast<std::size_t>(peer), stream);
  }
  for (const PriorityStream& copied : lane.copies) events_.order(copied.get(), lane.stream());
}

/// Where element i of the arena is in each rank's contribution, for i in this rank's share.
MemberMemory PeerSum::contributions(const PeerArena& attached, const CopyLayout& layout) const {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const std::int64_t begin = layout.share(group_.rank()).begin;
  // As integers: the arena's first element may have no place in staging memory.
  const auto staging = reinterpret_cast<std::intptr_t>(attached.stagings[rank]);
  MemberMemory from;
  for (int r = 0; r < group_.ranks(); ++r) {
    const std::int64_t shift = layout.place(group_.rank(), r).begin - begin;
    from.of[r] = reinterpret_cast<const void*>(staging + shift * std::int64_t{sizeof(float)});
  }
  from.of[rank] = attached.arenas[rank];
  return from;
}

void PeerSum::scatter(const PeerArena& attached, const CopyLayout& layout) {
  const int rank = group_.rank();
  const float* arena = attached.arenas[static_cast<std::size_t>(rank)];
  copy_to_all(context_.stream(), scatter_, [&](std::size_t peer, cudaStream_t stream) {
    const ArenaRange share = layout.share(static_cast<int>(peer));
    const ArenaRange place = layout.place(static_cast<int>(peer), rank);
    enqueue_copy(arena + share.begin, attached.stagings[peer] + place.begin, share.elements(),
                 stream);
  });
}

void PeerSum::sum_and_gather(const PeerArena& attached, const CopyLayout& layout) {
  float* arena = attached.arenas[static_cast<std::size_t>(group_.rank())];
  const ArenaRange own = layout.share(group_.rank());
  sum_share(gather_.stream(), contributions(attached, layout), group_.ranks(), own, arena);
  copy_to_all(gather_.stream(), gather_, [&](std::size_t peer, cudaStream_t stream) {
    enqueue_copy(arena + own.begin, attached.arenas[peer] + own.begin, own.elements(), stream);
  });
}

void PeerSum::barrier(const Lane& lane, int channel, const OperationMark& mark) {
  group_.barrier().enqueue(lane.stream(), channel, mark);
  group_.barrier().end_operation(lane.stream(), channel);
}

CUstream_st* PeerSum::enqueue(const PeerArena& attached, const ArenaRange& slice,
                              const OperationMark& mark) {
  const CopyLayout layout(slice, group_.ranks());
  const bool copies = slice.elements() > most_direct_ && layout.fits();
  events_.order(context_.stream(), scatter_.stream());
  if (copies) scatter(attached, layout);
  barrier(scatter_, on_scatter, mark);

  events_.order(scatter_.stream(), gather_.stream());
  if (copies) {
    sum_and_gather(attached, layout);
  } else {
    sum_directly(gather_.stream(), attached.arenas, share_of(slice, group_.ranks(), group_.rank()));
  }
  barrier(gather_, on_gather);
  return gather_.stream();
}

}  // namespace tandem
