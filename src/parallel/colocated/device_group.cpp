#include "parallel/colocated/device_group.h"

#include <algorithm>

#include "parallel/gather_values.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

constexpr auto slot_size = static_cast<std::size_t>(DeviceGroup::slot_bytes);

/// Of each process: control words, then its slots.
std::size_t group_bytes() {
  return DeviceBarrier::control_bytes() + DeviceGroup::slot_channels * slot_size;
}

int place_of(int rank, const std::vector<int>& ranks) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// What a process tells the others of its GPU when it attaches an arena.
struct AttachOffer {
  IpcAddress arena;
  std::int64_t elements;
};

}  // namespace

DeviceGroup::DeviceGroup(Communicator& host, CudaContext& context, const std::vector<int>& ranks,
                         DeviceOrder order)
    : host_(host),
      context_(context),
      ranks_(ranks),
      member_(place_of(host.rank(), ranks)),
      own_(DeviceBuffer::zeroed(context, group_bytes())) {
  TANDEM_CHECK(members() <= most_members && member_ < members(),
               "{} ranks share a GPU, and this is the {}th of them", members(), member_);
  try {
    map_members(order);
  } catch (...) {
    own_.leave();  // which others may have mapped
    throw;
  }
}

void DeviceGroup::map_members(DeviceOrder order) {
  wait_for_device(host_, context_,
                  "the start of the ranks of a GPU");  // zeroed before others see it
  const std::vector<IpcAddress> addresses = exchange(ipc_address(own_.data()));
  for (int m = 0; m < members(); ++m) {
    if (m == member_) {
      memory_.push_back(own_.data());
      continue;
    }
    mapped_.emplace_back(addresses[static_cast<std::size_t>(m)]);
    memory_.push_back(mapped_.back().data());
  }
  for (int channel = 0; channel < slot_channels; ++channel) {
    for (int m = 0; m < members(); ++m) slots_[channel].of[m] = slot(m, channel);
  }
  barrier_ = std::make_unique<DeviceBarrier>(context_, order, memory_, member_);
}

std::vector<int> DeviceGroup::late_ranks() const {
  std::vector<int> late;
  for (const int m : barrier_->late_members()) late.push_back(ranks_[static_cast<std::size_t>(m)]);
  return late;
}

template <typename T>
std::vector<T> DeviceGroup::exchange(const T& mine) {
  const std::vector<T> all = gather_values(host_, mine);
  std::vector<T> ours;
  for (const int rank : ranks_) ours.push_back(all[static_cast<std::size_t>(rank)]);
  return ours;
}

void* DeviceGroup::slot(int member, int channel) const {
  return memory_[static_cast<std::size_t>(member)] + DeviceBarrier::control_bytes() +
         static_cast<std::size_t>(channel) * slot_size;
}

CommonMemory DeviceGroup::make_common(std::size_t bytes) {
  CommonMemory common;
  if (leads()) common.own = DeviceBuffer::zeroed(context_, bytes);
  try {
    share(common);
  } catch (...) {
    common.own.leave();  // which others may have mapped
    throw;
  }
  return common;
}

void DeviceGroup::share(CommonMemory& common) {
  IpcAddress address{};
  if (leads()) {
    wait_for_device(host_, context_, "memory that ranks share");  // zeroed before others see it
    common.data = common.own.data();
    address = ipc_address(common.data);
  }
  const std::vector<IpcAddress> addresses = exchange(address);
  if (leads()) return;
  common.mapped = std::make_unique<PeerMemory>(addresses.front());
  common.data = common.mapped->data();
}

std::byte* DeviceGroup::allocate_common(std::size_t bytes) {
  return common_.emplace_back(make_common(bytes)).data;
}

const AttachedArena& DeviceGroup::attach(float* arena, std::int64_t elements) {
  TANDEM_CHECK(reinterpret_cast<std::uintptr_t>(arena) % 16 == 0,
               "attach: the arena is not 16-byte aligned");
  AttachedArena attached;
  attached.arena = arena;
  attached.elements = elements;
  // What no operation sums is 0 there for whoever reads it.
  attached.common = make_common(static_cast<std::size_t>(elements) * sizeof(float));
  attached.sums = reinterpret_cast<float*>(attached.common.data);
  try {
    map_arenas(attached);
  } catch (...) {
    attached.common.own.leave();
    throw;
  }
  return arenas_.emplace_back(std::move(attached));
}

void DeviceGroup::map_arenas(AttachedArena& attached) {
  const std::vector<AttachOffer> offers =
      exchange(AttachOffer{ipc_address(attached.arena), attached.elements});
  for (int m = 0; m < members(); ++m) {
    const AttachOffer& theirs = offers[static_cast<std::size_t>(m)];
    TANDEM_CHECK(theirs.elements == attached.elements,
                 "attach: this rank's arena has {} elements, that of rank {} {}", attached.elements,
                 ranks_[static_cast<std::size_t>(m)], theirs.elements);
    attached.arenas.of[m] =
        m == member_ ? attached.arena
                     : reinterpret_cast<float*>(attached.mapped.emplace_back(theirs.arena).data());
  }
}

const AttachedArena& DeviceGroup::attached(const Tensor& slice) const {
  const auto* begin = static_cast<const float*>(slice.raw());
  const auto holds = [&](const AttachedArena& candidate) {
    return begin >= candidate.arena &&
           begin + slice.elements() <= candidate.arena + candidate.elements;
  };
  const auto found = std::ranges::find_if(arenas_, holds);
  TANDEM_CHECK(found != arenas_.end(), "sum_attached_async: the slice is in no attached arena");
  return *found;
}

void DeviceGroup::detach(const float* arena) {
  const auto found =
      std::ranges::find_if(arenas_, [&](const AttachedArena& a) { return a.arena == arena; });
  TANDEM_CHECK(found != arenas_.end(), "detach: the arena is not attached");
  host_.barrier();  // no process's device reads it any longer
  found->mapped.clear();
  found->common.mapped.reset();
  host_.barrier();  // no process maps it
  arenas_.erase(found);
}

void DeviceGroup::leave() {
  own_.leave();
  for (AttachedArena& arena : arenas_) arena.common.own.leave();
  for (CommonMemory& common : common_) common.own.leave();
}

void DeviceGroup::unmap() {
  host_.barrier();
  for (AttachedArena& arena : arenas_) {
    arena.mapped.clear();
    arena.common.mapped.reset();
  }
  for (CommonMemory& common : common_) common.mapped.reset();
  mapped_.clear();
  host_.barrier();
}

}  // namespace tandem
