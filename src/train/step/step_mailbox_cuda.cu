#include "device/cuda_check.h"
#include "train/step/step_mailbox.h"

namespace tandem {
namespace {

__global__ void begin_step(const StepOrder* orders, const std::uint32_t* ended,
                           StepControl* control, StepStatistics* statistics) {
  const StepOrder order = orders[*ended % 2];
  control->host = order.control;
  *statistics = {};
  statistics->stop = order.stop;
}

__global__ void end_step(const StepControl* control, const StepStatistics* statistics,
                         StepFound* found, std::uint32_t* ended) {
  StepFound& mine = found[*ended % 2];
  mine.statistics = *statistics;
  mine.state = control->state;
  ++*ended;
}

}  // namespace

StepMailbox::StepMailbox(AnyContext& context)
    : context_(std::get<CudaContext>(context)),
      places_(context_),
      ended_(context, 1, "the number of steps") {}

StepOrder& StepMailbox::next_order() {
  place_ = 1 - place_;
  StepOrder& order = (*places_).orders[place_];
  order = {};
  return order;
}

const StepFound& StepMailbox::found(int steps_ago) const {
  return (*places_).found[(place_ + steps_ago) % 2];
}

void StepMailbox::enqueue_begin(StepControl* control, StepStatistics* statistics) {
  begin_step<<<1, 1, 0, context_.stream()>>>((*places_).orders, ended_.rows().data(), control,
                                             statistics);
  TANDEM_CUDA_CHECK_LAUNCH();
}

void StepMailbox::enqueue_end(const StepControl* control, const StepStatistics* statistics) {
  end_step<<<1, 1, 0, context_.stream()>>>(control, statistics, (*places_).found,
                                           ended_.rows().data());
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
