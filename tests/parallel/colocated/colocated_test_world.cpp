#include <cstdlib>
#include <string>

#include "base/error.h"
#include "parallel/colocated/shared_memory_communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/test_worlds.h"

namespace tandem {
namespace {

/// Hosts that are made up: digit r of TANDEM_TEST_HOSTS_OF_RANKS is that of rank r; without it all
/// are on one. What they share lies on this one all the same.
RankTopology made_up_topology(const Communicator& world) {
  const char* hosts = std::getenv("TANDEM_TEST_HOSTS_OF_RANKS");
  const std::string digits =
      hosts == nullptr ? std::string(static_cast<std::size_t>(world.size()), '0') : hosts;
  TANDEM_CHECK(digits.size() == static_cast<std::size_t>(world.size()), "hosts {} for {} ranks",
               digits, world.size());
  std::vector<RankPlace> places;
  for (const char digit : digits) {
    const std::string host = std::string("node-") + digit;
    places.push_back({.host = host, .host_id = host, .device = {}});
  }
  return {std::move(places), world.rank()};
}

class ColocatedWorlds final : public TestWorlds {
 public:
  explicit ColocatedWorlds(const MpiSession& session)
      : hosts_(session.make_world(patient_options())),
        splitting_hosts_(MpiOptions{.message_elements = 5}),
        topology_(made_up_topology(*hosts_)),
        world_(*hosts_, topology_),
        splitting_(splitting_hosts_, topology_, {.piece_bytes = 64, .windows = 2}) {}
  Communicator& world() override { return world_; }
  Communicator* splitting() override { return &splitting_; }
  std::vector<std::vector<int>> devices() override {
    std::vector<std::vector<int>> ranks;
    for (int host = 0; host < topology_.hosts(); ++host) {
      ranks.push_back(topology_.ranks_on_host(host));
    }
    return ranks;
  }

 private:
  std::unique_ptr<Communicator> hosts_;
  MpiCommunicator splitting_hosts_;
  RankTopology topology_;
  SharedMemoryCommunicator world_;
  SharedMemoryCommunicator splitting_;
};

}  // namespace

std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session) {
  return std::make_unique<ColocatedWorlds>(session);
}

}  // namespace tandem
