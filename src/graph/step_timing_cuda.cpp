#include <algorithm>
#include <vector>

#include "base/heartbeat.h"
#include "base/median.h"
#include "device/arena.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "graph/step_plan_choice.h"
#include "layers/tuning/plan_tuner.h"
#include "layers/tuning/result_check.h"

namespace tandem {
namespace {

/// Until the clocks of a device that was idle have risen.
constexpr double warm_up_seconds = 0.2;
/// Of a round of launches behind each other, without the gap in which the host notices that one has
/// ended.
constexpr double round_seconds = 0.01;
constexpr double seconds_in_all = 0.5;
constexpr int least_rounds = 3;
constexpr int most_rounds = 15;

/// A batch of noise, whose samples are all of the first class, and what forward says of it.
class NoiseBatch {
 public:
  NoiseBatch(CudaContext& device, const Graph& graph, AnyContext& context, const StepPlan& plan)
      : images_(nullptr, with_batch(graph.input(), plan.batch()),
                activation_dtype(plan.precision())),
        image_memory_(context, images_.bytes(), "a batch"),
        labels_(context, static_cast<std::size_t>(plan.batch()) * size_of(DType::i32), "labels"),
        sums_(context, 4 * size_of(DType::f32), "a batch's sums") {
    images_ = Tensor(image_memory_.data(), images_.shape(), images_.dtype());
    fill_operand(device, images_.dtype(), images_.shape().elements(), 1, 1.0F, images_.raw());
  }

  void enqueue_step(StepPlan& plan) const {
    const Targets targets{.labels = Tensor(labels_.data(), {plan.batch()}, DType::i32)};
    plan.enqueue_forward(images_, targets, plan.batch(), {}, nullptr, Tensor(sums_.data(), {4}));
    plan.backward(false, {});
  }

 private:
  Tensor images_;
  Arena image_memory_;
  Arena labels_;
  Arena sums_;
};

/// Seconds of each of so many launches, one behind the other.
double seconds_of(const CudaContext& device, CudaGraph& graph, int launches,
                  const std::function<void()>& between) {
  heartbeat();
  if (between) between();
  CudaEvent begin;
  CudaEvent end;
  begin.record(device);
  for (int i = 0; i < launches; ++i) graph.launch();
  end.record(device);
  end.synchronize();
  return end.seconds_since(begin) / launches;
}

}  // namespace

bool times_steps(const CudaContext& /*device*/) { return may_measure(); }

double time_step(CudaContext& device, const Graph& graph, AnyContext& context, StepPlan& plan,
                 const std::function<void()>& between) {
  const NoiseBatch batch(device, graph, context, plan);
  batch.enqueue_step(plan);  // loads the code
  CudaGraph step(device, [&] { batch.enqueue_step(plan); });
  (void)seconds_of(device, step, 1, between);  // the first launch brings the graph to the device
  const double once = seconds_of(device, step, 1, between);
  const int launches = std::max(1, static_cast<int>(round_seconds / once));
  const double round = once * launches;
  for (double seconds = 0.0; seconds < warm_up_seconds; seconds += round) {
    (void)seconds_of(device, step, launches, between);
  }
  const int rounds =
      std::clamp(static_cast<int>(seconds_in_all / round), least_rounds, most_rounds);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(rounds));
  for (int i = 0; i < rounds; ++i) times.push_back(seconds_of(device, step, launches, between));
  return median(times);
}

}  // namespace tandem
