#include <cstdlib>
#include <utility>

#include "parallel/self_communicator.h"
#include "train/gpu_place.h"
#include "train/ranks/family_run.h"

namespace tandem {
namespace {

/// Timing kernels for each layer of the zoo would take the better part of an hour; which one
/// computes a layer changes roundings alone.
void take_first_kernels() { ::setenv("TANDEM_TUNE", "off", 0); }

}  // namespace

FamilyOutcome train_on_ranks(const Family& family, const Recipe& recipe, int steps) {
  take_first_kernels();
  GpuPlace gpu;
  return train_family(family, recipe, gpu.place(), steps);
}

FamilyOutcome train_alone(const Family& family, const Recipe& recipe, int steps) {
  take_first_kernels();
  AnyContext context(std::in_place_type<CudaContext>, gpu().device().index);
  SelfCommunicator self;
  return train_family(family, recipe, {context, self, self}, steps);
}

}  // namespace tandem
