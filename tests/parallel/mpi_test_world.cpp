#include "parallel/mpi/mpi_communicator.h"
#include "parallel/test_worlds.h"

namespace tandem {
namespace {

class MpiWorlds final : public TestWorlds {
 public:
  explicit MpiWorlds(const MpiSession& session)
      : world_(session.make_world(patient_options())),
        splitting_(MpiOptions{.message_elements = 5}) {}
  Communicator& world() override { return *world_; }
  Communicator* splitting() override { return &splitting_; }

 private:
  std::unique_ptr<Communicator> world_;
  MpiCommunicator splitting_;
};

}  // namespace

std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session) {
  return std::make_unique<MpiWorlds>(session);
}

}  // namespace tandem
