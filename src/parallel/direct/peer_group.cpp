#include "parallel/direct/peer_group.h"

#include <algorithm>

#include "device/cuda_context.h"
#include "parallel/gather_values.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

/// What a rank tells the others when it attaches an arena.
struct AttachOffer {
  IpcAddress arena{};
  std::int64_t elements = 0;
};

float* as_floats(const PeerMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

PeerOwners PeerOwners::each(const Communicator& host) {
  PeerOwners owners{.ranks = {}, .gpu = host.rank()};
  for (int rank = 0; rank < host.size(); ++rank) owners.ranks.push_back(rank);
  return owners;
}

PeerOwners PeerOwners::leaders(const RankTopology& topology) {
  PeerOwners owners{.ranks = {}, .gpu = topology.device_of(topology.rank())};
  for (int device = 0; device < topology.devices(); ++device) {
    owners.ranks.push_back(topology.ranks_on_device(device).front());
  }
  return owners;
}

PeerGroup::PeerGroup(Communicator& host, CudaContext& context, PeerOwners owners)
    : host_(host),
      context_(context),
      owners_(std::move(owners)),
      control_(DeviceBuffer::zeroed(context, DeviceBarrier::control_bytes())) {
  try {
    make_barrier();
  } catch (...) {
    control_.leave();  // which others may have mapped
    throw;
  }
}

void PeerGroup::make_barrier() {
  wait_for_device(host_, context_, "the start of GPUs that reach each other");  // zeroed before
  const std::vector<IpcAddress> addresses = gather_values(host_, ipc_address(control_.data()));
  std::vector<std::byte*> controls;
  for (int r = 0; r < host_.size(); ++r) {
    if (r == host_.rank()) {
      controls.push_back(control_.data());
    } else {
      controls.push_back(mapped_.emplace_back(addresses[static_cast<std::size_t>(r)]).data());
    }
  }
  barrier_ =
      std::make_unique<DeviceBarrier>(context_, DeviceOrder::inboxes, controls, host_.rank());
}

void PeerGroup::attach(float* arena, std::int64_t elements) {
  TANDEM_CHECK(reinterpret_cast<std::uintptr_t>(arena) % 16 == 0,
               "attach: the arena is not 16-byte aligned");
  PeerArena attached;
  attached.elements = elements;
  if (owns()) attached.allocation = allocation_of(arena);
  try {
    map(attached, arena);
    host_.barrier();  // nobody writes before all have mapped
  } catch (...) {
    leave(attached);  // the others may have mapped it
    throw;
  }
  arenas_.push_back(std::move(attached));
}

void PeerGroup::map(PeerArena& attached, float* arena) {
  wait_for_device(host_, context_, "memory for others");  // ready before they write
  AttachOffer mine{.elements = attached.elements};
  if (owns()) mine.arena = ipc_address(arena);
  const std::vector<AttachOffer> offers = gather_values(host_, mine);
  for (int g = 0; g < gpus(); ++g) {
    const int owner = owners_.ranks[static_cast<std::size_t>(g)];
    const AttachOffer& theirs = offers[static_cast<std::size_t>(owner)];
    TANDEM_CHECK(theirs.elements == attached.elements,
                 "attach: this rank's arena has {} elements, that of rank {} {}", attached.elements,
                 owner, theirs.elements);
    attached.arenas.push_back(g == gpu() ? arena
                                         : as_floats(attached.mapped.emplace_back(theirs.arena)));
  }
}

const PeerArena& PeerGroup::attached(const Tensor& slice) const {
  const auto* begin = static_cast<const float*>(slice.raw());
  const auto holds = [&](const PeerArena& candidate) {
    return begin >= own(candidate) &&
           begin + slice.elements() <= own(candidate) + candidate.elements;
  };
  const auto found = std::ranges::find_if(arenas_, holds);
  TANDEM_CHECK(found != arenas_.end(), "the slice is in no attached arena");
  return *found;
}

void PeerGroup::detach(const float* arena) {
  const auto found =
      std::ranges::find_if(arenas_, [&](const PeerArena& a) { return own(a) == arena; });
  TANDEM_CHECK(found != arenas_.end(), "detach: the arena is not attached");
  host_.barrier();  // no rank works on it any longer
  found->mapped.clear();
  host_.barrier();  // no rank maps it
  arenas_.erase(found);
}

void PeerGroup::unmap() {
  host_.barrier();
  for (PeerArena& arena : arenas_) arena.mapped.clear();
  mapped_.clear();
  host_.barrier();
}

void PeerGroup::leave() {
  control_.leave();
  for (const PeerArena& arena : arenas_) leave(arena);
}

void PeerGroup::leave(const PeerArena& attached) {
  if (attached.allocation != nullptr) context_.leave(attached.allocation);
}

}  // namespace tandem
