#include "train/evaluation_pass.h"

namespace tandem {
namespace {

class HostPass final : public EvaluationPass {
 public:
  explicit HostPass(StepPlan& plan) : plan_(plan) {}

  LossSums take(const Batch& batch) override {
    return plan_.forward(batch.images, {batch.labels}, batch.valid);
  }
  LossSums finish() override { return {}; }

 private:
  StepPlan& plan_;
};

}  // namespace

std::unique_ptr<EvaluationPass> make_evaluation_pass(CpuContext& /*context*/,
                                                     const EvaluationParts& parts) {
  return std::make_unique<HostPass>(parts.plan);
}

}  // namespace tandem
