#include <chrono>

#include "bench/step_recorder.h"

namespace tandem {
namespace {

class ClockRecorder final : public StepRecorder {
 public:
  explicit ClockRecorder(std::size_t moments) { moments_.reserve(moments); }

  void ended(StepPart part) override {
    const Clock::time_point now = Clock::now();
    if (part == StepPart::start) {
      moments_.clear();
      last_ = now;
    }
    moments_.push_back({part, std::chrono::duration<double>(now - last_).count()});
    last_ = now;
  }

  std::vector<StepMoment> last_step() override { return moments_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<StepMoment> moments_;
  Clock::time_point last_;
};

}  // namespace

std::unique_ptr<StepRecorder> make_step_recorder(CpuContext& /*context*/, std::size_t moments) {
  return std::make_unique<ClockRecorder>(moments);
}

std::unique_ptr<StepRecorder> make_step_recorder(AnyContext& context, std::size_t moments) {
  return std::visit([&](auto& device) { return make_step_recorder(device, moments); }, context);
}

}  // namespace tandem
