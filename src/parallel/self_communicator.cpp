#include "parallel/self_communicator.h"

#include <cstring>

#include "base/heartbeat.h"

namespace tandem {
namespace {

class DoneRequest final : public Request {
 public:
  bool test() override { return true; }
  void wait() override {}
};

void copy(const Tensor& input, const Tensor& output) {
  // memcpy wants valid pointers even for no bytes, which a tensor without elements may lack.
  if (input.elements() > 0) std::memcpy(output.raw(), input.raw(), input.bytes());
}

}  // namespace

void SelfCommunicator::do_send(const Tensor&, int to) {
  throw Error(fmt::format("send to {}: a group of one has no other rank", to));
}
void SelfCommunicator::do_recv(const Tensor&, int from) {
  throw Error(fmt::format("recv from {}: a group of one has no other rank", from));
}
void SelfCommunicator::do_broadcast(const Tensor&, int) {}
void SelfCommunicator::do_all_reduce(const Tensor&, ReduceOp) {}
std::unique_ptr<Request> SelfCommunicator::do_all_reduce_async(const Tensor&, ReduceOp,
                                                               std::string_view) {
  return std::make_unique<DoneRequest>();
}
std::unique_ptr<Request> SelfCommunicator::do_all_reduce_bf16_async(const Tensor&, const Tensor&,
                                                                    std::string_view) {
  return std::make_unique<DoneRequest>();
}
void SelfCommunicator::do_reduce(const Tensor&, ReduceOp, int) {}
void SelfCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  copy(input, output);
}
void SelfCommunicator::do_gather(const Tensor& input, const Tensor& output, int) {
  copy(input, output);
}
void SelfCommunicator::do_scatter(const Tensor& input, const Tensor& output, int) {
  copy(input, output);
}
void SelfCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp) {
  copy(input, output);
}
void SelfCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  copy(input, output);
}
void SelfCommunicator::do_barrier() {}
void SelfCommunicator::do_sum_doubles(double*, std::int64_t) {}
std::unique_ptr<Communicator> SelfCommunicator::do_split(int) {
  return host_ != nullptr ? std::make_unique<SelfCommunicator>(*host_)
                          : std::make_unique<SelfCommunicator>(timeout_.count());
}

void SelfCommunicator::do_wait_until(const std::function<bool()>& done,
                                     const std::function<std::string()>& what, Awaited awaited) {
  if (host_ != nullptr) return host_->wait_until(done, what, awaited);
  using Clock = std::chrono::steady_clock;
  const Seconds limit = patience_.limit();
  Clock::time_point start = Clock::now();
  Clock::time_point asked = start;
  while (!done()) {
    heartbeat();
    const Clock::time_point now = Clock::now();
    if (now - asked > timeout_ / 2) start = now;  // it was this process that stood still
    asked = now;
    if (timeout_ > Seconds::zero() && now - start > limit) {
      throw CommunicationTimeout(fmt::format("waited {:g} s in {}", limit.count(), what()),
                                 "for this rank's own device");
    }
  }
  patience_.waited(Clock::now() - start);
}

}  // namespace tandem
