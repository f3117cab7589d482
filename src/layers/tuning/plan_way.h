#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "layers/plans/convolution_plan.h"

namespace tandem {

/// A plan for choose_way() that runs a function, with whatever else than a convolution's operands
/// that holds. Included by sources only.
class PlanWay final : public ConvolutionPlan {
 public:
  using Run =
      std::function<void(const void* first, const void* second, void* result, std::byte* scratch)>;
  PlanWay(std::string name, std::size_t scratch, Run run)
      : name_(std::move(name)), scratch_(scratch), run_(std::move(run)) {}

  std::string name() const override { return name_; }
  std::size_t scratch() const override { return scratch_; }
  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    run_(first, second, result, scratch);
  }

 private:
  std::string name_;
  std::size_t scratch_;
  Run run_;
};

}  // namespace tandem
