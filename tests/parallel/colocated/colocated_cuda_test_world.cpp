#include <cstdlib>

#include "parallel/colocated/colocated_cuda.h"
#include "parallel/colocated/colocated_cuda_test.h"
#include "parallel/device_test.h"
#include "parallel/rank_devices.h"
#include "parallel/staging_communicator.h"
#include "parallel/test_worlds.h"

namespace tandem {
namespace {

class ColocatedWorlds;
ColocatedWorlds* the_worlds = nullptr;

class ColocatedWorlds final : public TestWorlds {
 public:
  explicit ColocatedWorlds(const MpiSession& session)
      : hosts_(session.make_world(patient_options())),
        context_(choose_device(*hosts_, visible_gpus())),
        topology_(RankTopology::gather(*hosts_, this_place(context_.device().uuid))),
        gpus_(*hosts_, context_, topology_, sharing_of_test(), links_of_test()),
        staging_(context_, gpus_) {
    the_worlds = this;
  }
  Communicator& world() override { return staging_; }
  Communicator* splitting() override { return nullptr; }
  std::vector<std::vector<int>> devices() override {
    std::vector<std::vector<int>> ranks;
    for (int device = 0; device < topology_.devices(); ++device) {
      ranks.push_back(topology_.ranks_on_device(device));
    }
    return ranks;
  }

  CudaContext& gpu() { return context_; }
  Communicator& gpus() { return gpus_; }
  Communicator& hosts() { return *hosts_; }
  const RankTopology& topology() const { return topology_; }

 private:
  std::unique_ptr<Communicator> hosts_;
  CudaContext context_;
  RankTopology topology_;
  ColocatedCudaCommunicator gpus_;
  StagingCommunicator staging_;
};

}  // namespace

GpuSharing sharing_of_test() {
  const bool under_mps = std::getenv("TANDEM_TEST_UNDER_MPS") != nullptr;
  return {.kernels_wait = under_mps, .time_sliced = !under_mps};
}

CudaContext& gpu() { return the_worlds->gpu(); }
Communicator& gpus() { return the_worlds->gpus(); }
Communicator& hosts() { return the_worlds->hosts(); }
const RankTopology& topology() { return the_worlds->topology(); }

std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session) {
  return std::make_unique<ColocatedWorlds>(session);
}

}  // namespace tandem
