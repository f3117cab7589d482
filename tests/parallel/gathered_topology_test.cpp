#include <cstdlib>

#include "parallel/mpi_test.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {
namespace {

/// Ranks that mpirun started on one machine are on one host; two_hosts.sh says how many it made.
int expected_hosts() {
  const char* hosts = std::getenv("TANDEM_TEST_HOSTS");
  return hosts == nullptr ? 1 : std::atoi(hosts);
}

TEST(GatheredTopology, SeesTheHostsThatMpirunStartedOn) {
  const RankTopology topology = RankTopology::gather(world());
  EXPECT_EQ(topology.rank(), world().rank());
  EXPECT_EQ(topology.size(), world().size());
  EXPECT_EQ(topology.hosts(), expected_hosts()) << topology.text();
  EXPECT_EQ(topology.devices(), expected_hosts());
  expect_same_everywhere(topology.text());
  // Open MPI's own idea of who is near.
  const char* local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const char* local_size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  ASSERT_NE(local_rank, nullptr);
  ASSERT_NE(local_size, nullptr);
  EXPECT_EQ(topology.local_rank(), std::atoi(local_rank));
  EXPECT_EQ(topology.local_size(), std::atoi(local_size));
}

TEST(GatheredTopology, CarriesDevicesOfDifferentLengths) {
  const std::string device(static_cast<std::size_t>(world().rank()), 'x');
  const RankTopology topology = RankTopology::gather(world(), {"node", "node", device});
  EXPECT_EQ(topology.hosts(), 1);
  EXPECT_EQ(topology.devices(), world().size());
  EXPECT_EQ(topology.colocated_size(), 1);
}

}  // namespace
}  // namespace tandem
