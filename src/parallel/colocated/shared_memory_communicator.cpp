#include "parallel/colocated/shared_memory_communicator.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/idle_wait.h"
#include "base/text.h"
#include "parallel/bf16_sum.h"
#include "parallel/colocated/shared_host.h"
#include "parallel/colocated/shared_sum.h"
#include "parallel/mapped/shared_segment.h"

namespace tandem {
namespace {

class SharedSumRequest final : public Request {
 public:
  SharedSumRequest(Communicator& world, SharedSum& sum, std::int64_t number,
                   std::string_view operation, std::int64_t elements, std::string_view label)
      : world_(world),
        sum_(sum),
        number_(number),
        operation_(operation),
        elements_(elements),
        label_(label) {}

  bool test() override {
    if (!sum_.done(number_)) sum_.progress();
    return sum_.done(number_);
  }

  void wait() override {
    IdleWait idle(sum_.exchanges() ? IdleWait::attentive_to_messages
                                   : IdleWait::attentive_to_memory);
    const auto done = [&] {
      if (sum_.progress()) idle.restart();
      if (sum_.done(number_)) return true;
      idle.pause();
      return false;
    };
    world_.wait_until(done, [&] {
      return fmt::format("{}{}{} ({} elements)", operation_, label_.empty() ? "" : " of ", label_,
                         format_count(elements_));
    });
  }

 private:
  Communicator& world_;
  SharedSum& sum_;
  std::int64_t number_;
  std::string_view operation_;
  std::int64_t elements_;
  std::string_view label_;
};

SharedSumLayout layout_of(const RankTopology& topology, const SharedMemoryOptions& options) {
  return {.ranks = topology.local_size(), .piece_bytes = options.piece_bytes};
}

/// The first ranks of all hosts, on them; null elsewhere, and where there is one host.
std::unique_ptr<Communicator> split_leaders(Communicator& world, const RankTopology& topology) {
  if (topology.hosts() == 1) return nullptr;
  const bool leader = topology.local_rank() == 0;
  std::unique_ptr<Communicator> part = world.split(leader ? 0 : 1);
  return leader ? std::move(part) : nullptr;
}

}  // namespace

struct SharedMemoryCommunicator::Parts {
  Parts(Communicator& world, const RankTopology& topology, const SharedMemoryOptions& options)
      : host(world, topology),
        layout(layout_of(topology, options)),
        segment(world, topology,
                {.fixed = layout.counter_bytes(),
                 .each = layout.window_bytes(),
                 .most = options.windows,
                 .least = std::min(options.windows, std::int64_t{2})}),
        leaders(split_leaders(world, topology)),
        sum(segment.data(), with_windows(layout, segment.count()),
            {.rank = topology.local_rank(),
             .several_hosts = topology.hosts() > 1,
             .leaders = leaders.get()}) {}

  static SharedSumLayout with_windows(SharedSumLayout layout, std::int64_t windows) {
    layout.windows = windows;
    return layout;
  }

  /// An attached arena that is summed where it lies.
  struct Attached {
    const float* arena;
    std::int64_t elements;
    const SharedArenas* arenas;
    float* sums;
  };
  const Attached* attached(const Tensor& slice) const {
    const auto* begin = static_cast<const float*>(slice.raw());
    const auto found = std::ranges::find_if(arenas, [&](const Attached& each) {
      return begin >= each.arena && begin + slice.elements() <= each.arena + each.elements;
    });
    return found == arenas.end() ? nullptr : &*found;
  }

  SharedHost host;
  std::vector<Attached> arenas;
  SharedSumLayout layout;
  SharedSegment segment;
  std::unique_ptr<Communicator> leaders;
  SharedSum sum;
};

SharedMemoryCommunicator::SharedMemoryCommunicator(Communicator& world,
                                                   const RankTopology& topology,
                                                   const SharedMemoryOptions& options)
    : world_(world), hosts_(topology.hosts()) {
  TANDEM_CHECK(world.is_host(), "ranks share host memory, not that of '{}'", world.name());
  TANDEM_CHECK(topology.size() == world.size() && topology.rank() == world.rank(),
               "the places of {} ranks for a communicator of {}", topology.size(), world.size());
  parts_ = std::make_unique<Parts>(world, topology, options);
}

SharedMemoryCommunicator::~SharedMemoryCommunicator() = default;

std::string_view SharedMemoryCommunicator::name() const {
  return hosts_ == 1 ? "colocated" : "hierarchical";
}

SharedDevice* SharedMemoryCommunicator::shared_device() {
  return hosts_ == world_.size() ? nullptr : &parts_->host;
}

std::size_t SharedMemoryCommunicator::attached_bytes(std::int64_t elements) const {
  if (parts_->arenas.empty()) return 0;
  return static_cast<std::size_t>(elements) * sizeof(float) /
         static_cast<std::size_t>(parts_->host.members());
}

Tensor SharedMemoryCommunicator::do_attach(const Tensor& arena) {
  const SharedArenas* arenas = parts_->host.arenas_of(arena.raw());
  // Ranks that do not agree get on without, and are told of what is different later.
  std::int64_t fewest[2] = {arenas == nullptr ? 0 : arena.elements(),
                            arenas == nullptr ? 0 : -arena.elements()};
  world_.all_reduce(Tensor(fewest, {2}, DType::i64), ReduceOp::min);
  if (fewest[0] == 0 || fewest[0] != -fewest[1]) return arena;
  auto* sums = reinterpret_cast<float*>(parts_->host.allocate(arena.bytes()));
  parts_->arenas.push_back({arena.data<float>(), arena.elements(), arenas, sums});
  return {sums, arena.shape(), DType::f32};
}

void SharedMemoryCommunicator::do_detach(const Tensor& arena) {
  std::erase_if(parts_->arenas,
                [&](const Parts::Attached& each) { return each.arena == arena.raw(); });
}

std::unique_ptr<Request> SharedMemoryCommunicator::do_sum_attached_async(const Tensor& slice,
                                                                         std::string_view label,
                                                                         const Tensor& scratch) {
  const Parts::Attached* in = parts_->attached(slice);
  if (in == nullptr) {
    return scratch.defined() ? do_all_reduce_bf16_async(slice, scratch, label)
                             : do_all_reduce_async(slice, ReduceOp::sum, label);
  }
  SharedSum& sum = parts_->sum;
  const std::int64_t number = sum.begin_in_place(
      *in->arenas, in->sums, slice.data<float>() - in->arena, slice.elements(), scratch);
  return std::make_unique<SharedSumRequest>(world_, sum, number, "all_reduce_async",
                                            slice.elements(), label);
}

std::int64_t SharedMemoryCommunicator::bf16_scratch(std::int64_t elements) const {
  if (hosts_ == 1) return 0;
  std::int64_t needed = 0;
  parts_->sum.for_each_piece(elements, DType::f32, [&](std::int64_t, std::int64_t piece) {
    needed += Bf16SumLayout(piece, hosts_).scratch_elements();
  });
  return needed;
}

void SharedMemoryCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  SharedSum& sum = parts_->sum;
  SharedSumRequest(world_, sum, sum.begin(tensor, op), "all_reduce", tensor.elements(), {}).wait();
}

std::unique_ptr<Request> SharedMemoryCommunicator::do_all_reduce_async(const Tensor& tensor,
                                                                       ReduceOp op,
                                                                       std::string_view label) {
  SharedSum& sum = parts_->sum;
  return std::make_unique<SharedSumRequest>(world_, sum, sum.begin(tensor, op), "all_reduce_async",
                                            tensor.elements(), label);
}

std::unique_ptr<Request> SharedMemoryCommunicator::do_all_reduce_bf16_async(
    const Tensor& tensor, const Tensor& scratch, std::string_view label) {
  SharedSum& sum = parts_->sum;
  return std::make_unique<SharedSumRequest>(world_, sum, sum.begin(tensor, ReduceOp::sum, scratch),
                                            "all_reduce_bf16_async", tensor.elements(), label);
}

}  // namespace tandem
