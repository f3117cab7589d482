#include "parallel/peer_copy/peer_group.h"

#include <algorithm>

#include "device/cuda_context.h"
#include "parallel/gather_values.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

/// What a rank tells the others when it attaches an arena.
struct AttachOffer {
  IpcAddress arena;
  IpcAddress staging;
  std::int64_t elements;
};

float* as_floats(const PeerMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

PeerGroup::PeerGroup(Communicator& host, CudaContext& context)
    : host_(host), context_(context), control_(context, DeviceBarrier::control_bytes()) {
  try {
    make_barrier();
  } catch (...) {
    control_.leave();  // which others may have mapped
    throw;
  }
}

void PeerGroup::make_barrier() {
  wait_for_device(host_, context_, "the start of GPUs that copy");  // zeroed before others see it
  const std::vector<IpcAddress> addresses = gather_values(host_, ipc_address(control_.data()));
  std::vector<std::byte*> controls;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) {
      controls.push_back(control_.data());
    } else {
      controls.push_back(mapped_.emplace_back(addresses[static_cast<std::size_t>(r)]).data());
    }
  }
  barrier_ = std::make_unique<DeviceBarrier>(context_, DeviceOrder::inboxes, controls, rank());
}

void PeerGroup::attach(float* arena, std::int64_t elements) {
  TANDEM_CHECK(reinterpret_cast<std::uintptr_t>(arena) % 16 == 0,
               "attach: the arena is not 16-byte aligned");
  PeerArena attached;
  attached.elements = elements;
  attached.allocation = allocation_of(arena);
  attached.own_staging =
      std::make_unique<OwnMemory>(context_, static_cast<std::size_t>(elements) * sizeof(float));
  try {
    map(attached, arena);
    host_.barrier();  // nobody copies before all have mapped
  } catch (...) {
    leave(attached);  // the others may have mapped it
    throw;
  }
  arenas_.push_back(std::move(attached));
}

void PeerGroup::map(PeerArena& attached, float* arena) {
  wait_for_device(host_, context_, "staging memory");  // cleared before others write there
  auto* staging = reinterpret_cast<float*>(attached.own_staging->data());
  const std::int64_t elements = attached.elements;
  const std::vector<AttachOffer> offers =
      gather_values(host_, AttachOffer{ipc_address(arena), ipc_address(staging), elements});
  for (int r = 0; r < ranks(); ++r) {
    const AttachOffer& theirs = offers[static_cast<std::size_t>(r)];
    TANDEM_CHECK(theirs.elements == elements,
                 "attach: this rank's arena has {} elements, that of rank {} {}", elements, r,
                 theirs.elements);
    const bool mine = r == rank();
    attached.arenas.push_back(mine ? arena : as_floats(attached.mapped.emplace_back(theirs.arena)));
    attached.stagings.push_back(mine ? staging
                                     : as_floats(attached.mapped.emplace_back(theirs.staging)));
  }
}

const PeerArena& PeerGroup::attached(const Tensor& slice) const {
  const auto* begin = static_cast<const float*>(slice.raw());
  const auto holds = [&](const PeerArena& candidate) {
    return begin >= own(candidate) &&
           begin + slice.elements() <= own(candidate) + candidate.elements;
  };
  const auto found = std::ranges::find_if(arenas_, holds);
  TANDEM_CHECK(found != arenas_.end(), "sum_attached_async: the slice is in no attached arena");
  return *found;
}

void PeerGroup::detach(const float* arena) {
  const auto found =
      std::ranges::find_if(arenas_, [&](const PeerArena& a) { return own(a) == arena; });
  TANDEM_CHECK(found != arenas_.end(), "detach: the arena is not attached");
  host_.barrier();  // no rank's device copies to it any longer
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
  attached.own_staging->leave();
  context_.leave(attached.allocation);
}

}  // namespace tandem
