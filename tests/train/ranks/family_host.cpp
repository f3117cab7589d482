#include "parallel/mpi_test.h"
#include "parallel/self_communicator.h"
#include "train/ranks/family_run.h"

namespace tandem {

FamilyOutcome train_on_ranks(const Family& family, const Recipe& recipe, int steps) {
  AnyContext context(CpuContext(1));
  return train_family(family, recipe, {context, world(), world()}, steps);
}

FamilyOutcome train_alone(const Family& family, const Recipe& recipe, int steps) {
  AnyContext context(CpuContext(1));
  SelfCommunicator self;
  return train_family(family, recipe, {context, self, self}, steps);
}

}  // namespace tandem
