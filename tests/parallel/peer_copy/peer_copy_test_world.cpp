#include "parallel/device_test.h"
#include "parallel/peer_copy/peer_copy_communicator.h"
#include "parallel/rank_devices.h"
#include "parallel/staging_communicator.h"
#include "parallel/test_worlds.h"

namespace tandem {
namespace {

class PeerCopyWorlds;
PeerCopyWorlds* the_worlds = nullptr;

class PeerCopyWorlds final : public TestWorlds {
 public:
  explicit PeerCopyWorlds(const MpiSession& session)
      : hosts_(session.make_world()),
        context_(choose_device(*hosts_, visible_gpus())),
        gpus_(*hosts_, context_),
        staging_(context_, gpus_) {
    the_worlds = this;
  }
  Communicator& world() override { return staging_; }
  Communicator* splitting() override { return nullptr; }

  CudaContext& gpu() { return context_; }
  Communicator& gpus() { return gpus_; }
  Communicator& hosts() { return *hosts_; }

 private:
  std::unique_ptr<Communicator> hosts_;
  CudaContext context_;
  PeerCopyCommunicator gpus_;
  StagingCommunicator staging_;
};

}  // namespace

CudaContext& gpu() { return the_worlds->gpu(); }
Communicator& gpus() { return the_worlds->gpus(); }
Communicator& hosts() { return the_worlds->hosts(); }

std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session) {
  return std::make_unique<PeerCopyWorlds>(session);
}

}  // namespace tandem
