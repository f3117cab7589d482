#include "train/record/step_tally.h"

#include <utility>

namespace tandem {
namespace {

template <typename Time>
double seconds_between(const Time& from, const Time& to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

StepTally::StepTally(std::function<double()> data_wait_seconds)
    : data_wait_seconds_(std::move(data_wait_seconds)) {}

void StepTally::begin(std::int64_t step) {
  step_ = step;
  began_ = Clock::now();
  begin_interval();
}

void StepTally::begin_interval() {
  interval_ = {};
  interval_began_ = Clock::now();
  waited_before_ = data_wait_seconds_();
}

void StepTally::add(const StepResult& result) {
  step_ += result.steps;
  epoch_sums_ += result.sums;
  interval_.sums += result.sums;
  interval_.steps += result.steps;
  interval_.exposed_communication_seconds += result.exposed_seconds;
  if (result.gradient_norm) interval_.gradient_norm = result.gradient_norm;
}

Interval StepTally::take_interval() {
  Interval ended = interval_;
  ended.seconds = seconds_between(interval_began_, Clock::now());
  ended.data_wait_seconds = data_wait_seconds_() - waited_before_;
  begin_interval();
  return ended;
}

void StepTally::pause(double seconds) {
  paused_seconds_ += seconds;
  begin_interval();
}

double StepTally::training_seconds() const {
  return seconds_between(began_, Clock::now()) - paused_seconds_;
}

}  // namespace tandem
