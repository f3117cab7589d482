#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "optim/optimizer.h"

namespace tandem {

/// Arena of 40000 elements: more than two blocks, slices of odd length, padding between them.
constexpr std::int64_t arena_elements = 40000;
inline const std::vector<ParameterGroupSlice> slices{
    {0, 35001, 5e-4F}, {35008, 17, 0.0F, false}, {35040, 1, 0.1F}};

inline std::vector<float> random_values(std::string_view name) {
  RandomStream stream(7, name);
  std::vector<float> values(arena_elements);
  for (float& value : values) value = stream.normal();
  return values;
}

inline Tensor view(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// Whether `optimizer`, made anew, goes on with the same bits after its state was moved to another.
template <typename Make>
void expect_continues_from_restored_state(Make&& make, std::vector<float>& whole,
                                          std::vector<float>& parts) {
  whole = random_values("parameters");
  parts = random_values("parameters");
  std::vector<float> gradients = random_values("gradients");
  const auto run = [&](Optimizer& optimizer, std::vector<float>& parameters) {
    for (int step = 0; step < 2; ++step) {
      optimizer.step(view(parameters), view(gradients), {.learning_rate = 0.1F});
    }
  };
  const auto uninterrupted = make();
  run(*uninterrupted, whole);
  run(*uninterrupted, whole);
  const auto before = make();
  run(*before, parts);
  const auto after = make();
  for (std::size_t i = 0; i < before->state().size(); ++i) {
    const Tensor from = before->state()[i].tensor;
    const Tensor to = after->state()[i].tensor;
    std::copy_n(from.data<float>(), from.elements(), to.data<float>());
  }
  after->set_steps_taken(before->steps_taken());
  run(*after, parts);
}

/// The parameters after three steps on `threads` threads.
template <typename Make>
std::vector<float> after_three_steps(Make&& make, int threads) {
  AnyContext context = CpuContext(threads);
  const auto optimizer = make(context);
  std::vector<float> parameters = random_values("parameters");
  for (int step = 0; step < 3; ++step) {
    std::vector<float> gradients = random_values("gradients " + std::to_string(step));
    optimizer->step(view(parameters), view(gradients), {.learning_rate = 0.1F});
  }
  return parameters;
}

}  // namespace tandem
