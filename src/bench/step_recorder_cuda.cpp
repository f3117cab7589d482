#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "bench/step_recorder.h"
#include "device/cuda_event.h"

namespace tandem {
namespace {

/// Moments with nothing between them, before the step's start: what recording takes.
constexpr std::size_t idle_moments = 9;

class EventRecorder final : public StepRecorder {
 public:
  /// The events are made here: capturing forbids much.
  EventRecorder(CudaContext& context, std::size_t moments)
      : context_(context), events_(idle_moments + moments) {
    parts_.reserve(moments);
  }

  void ended(StepPart part) override {
    if (part == StepPart::start) {
      parts_.clear();
      for (std::size_t i = 0; i < idle_moments; ++i) events_[i].record(context_);
    }
    const std::size_t at = idle_moments + parts_.size();
    TANDEM_CHECK(at < events_.size(), "more than {} moments in a step", events_.size());
    events_[at].record(context_);
    parts_.push_back(part);
  }

  std::vector<StepMoment> last_step() override {
    std::vector<double> idle;
    for (std::size_t i = 1; i < idle_moments; ++i) {
      idle.push_back(events_[i].seconds_since(events_[i - 1]));
    }
    recording_seconds_ = median(std::move(idle));
    std::vector<StepMoment> moments;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const CudaEvent& event = events_[idle_moments + i];
      const double seconds = event.seconds_since(events_[idle_moments + i - 1]);
      moments.push_back({parts_[i], i == 0 ? 0.0 : std::max(0.0, seconds - recording_seconds_)});
    }
    return moments;
  }
  double recording_seconds() const override { return recording_seconds_; }

 private:
  CudaContext& context_;
  std::vector<CudaEvent> events_;
  std::vector<StepPart> parts_;
  double recording_seconds_ = 0.0;
};

}  // namespace

std::unique_ptr<StepRecorder> make_step_recorder(CudaContext& context, std::size_t moments) {
  return std::make_unique<EventRecorder>(context, moments);
}

}  // namespace tandem
