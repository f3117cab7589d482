#include "parallel/colocated/shared_memory_communicator.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "parallel/bf16_sum.h"
#include "parallel/colocated/shared_host.h"
#include "parallel/colocated/shared_segment.h"
#include "parallel/colocated/shared_sum.h"

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
    // Others answer soon, or compute: ranks may outnumber the cores and need this one.
    constexpr int patience = 200;
    int idle = 0;
    const auto done = [&] {
      if (sum_.progress()) idle = 0;
      if (sum_.done(number_)) return true;
      if (++idle > patience) std::this_thread::yield();
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

  SharedHost host;
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
