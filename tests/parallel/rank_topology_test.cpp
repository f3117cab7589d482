#include "parallel/placement/rank_topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "parallel/self_communicator.h"
#include "support/message.h"

namespace tandem {
namespace {

using Ranks = std::vector<int>;

/// Two GPUs on node a, one rank without a GPU there, one on node b; numbered by no pattern.
std::vector<RankPlace> mixed_places() {
  return {{"b", "b id", "GPU-3"}, {"a", "a id", "GPU-1"}, {"a", "a id", "GPU-2"},
          {"b", "b id", "GPU-3"}, {"a", "a id", ""},      {"a", "a id", "GPU-1"}};
}

TEST(RankTopology, GroupsByHostAndDevice) {
  const RankTopology topology(mixed_places(), 5);
  EXPECT_EQ(topology.size(), 6);
  EXPECT_EQ(topology.hosts(), 2);
  EXPECT_EQ(topology.host_name(0), "b");
  EXPECT_EQ(topology.ranks_on_host(0), (Ranks{0, 3}));
  EXPECT_EQ(topology.ranks_on_host(1), (Ranks{1, 2, 4, 5}));
  EXPECT_EQ(topology.host_of(4), 1);
  EXPECT_EQ(topology.local_rank(), 3);
  EXPECT_EQ(topology.local_size(), 4);
  EXPECT_EQ(topology.devices(), 4);
  EXPECT_EQ(topology.ranks_on_device(topology.device_of(1)), (Ranks{1, 5}));
  EXPECT_EQ(topology.ranks_on_device(topology.device_of(4)), (Ranks{4}));
  EXPECT_EQ(topology.colocated_rank(), 1);
  EXPECT_EQ(topology.colocated_size(), 2);
  EXPECT_EQ(topology.text(), "6 ranks on 2 hosts: b (ranks 0 and 3), a (ranks 1, 2, 4 and 5)");
  EXPECT_EQ(topology.text(4),
            "24 ranks folded into 6 processes on 2 hosts: b (processes 0 and 3), a (processes 1, "
            "2, 4 and 5)");
}

TEST(RankTopology, MachinesThatShareANameAreTwoHosts) {
  const RankTopology topology({{"node", "node 1", ""}, {"node", "node 2", ""}}, 1);
  EXPECT_EQ(topology.hosts(), 2);
  EXPECT_EQ(topology.local_rank(), 0);
}

TEST(RankTopology, WithoutGpusTheDeviceIsTheHost) {
  const RankTopology topology({{"a", "a", ""}, {"b", "b", ""}, {"a", "a", ""}}, 2);
  EXPECT_EQ(topology.devices(), 2);
  EXPECT_EQ(topology.colocated_rank(), topology.local_rank());
  EXPECT_EQ(topology.colocated_size(), 2);
}

TEST(RankTopology, SaysWhereRanksAre) {
  const RankTopology topology({{"a", "a", "GPU-1"}, {"b", "b", "GPU-2"}, {"c", "c", ""}}, 0);
  EXPECT_EQ(topology.places_text(std::vector<int>{1, 2}), "rank 1 on b, GPU-2; rank 2 on c");
  EXPECT_EQ(topology.places_text({}), "");
}

TEST(RankTopology, OfOneProcess) {
  SelfCommunicator self;
  const RankTopology topology = RankTopology::gather(self);
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(topology.host_name(0), name.data());
  EXPECT_EQ(topology.local_size(), 1);
  EXPECT_EQ(topology.text(), std::string("1 rank on 1 host: ") + name.data() + " (rank 0)");
}

}  // namespace
}  // namespace tandem
