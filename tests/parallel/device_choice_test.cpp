#include "parallel/placement/device_choice.h"

#include "parallel/mpi_test.h"

namespace tandem {
namespace {

using Uuids = std::vector<std::string>;

/// As many GPUs as there are ranks, and one more.
Uuids plenty() {
  Uuids uuids;
  for (int i = 0; i <= world().size(); ++i) uuids.push_back("GPU-" + std::to_string(i));
  return uuids;
}

int local_rank() { return RankTopology::gather(world()).local_rank(); }
int local_size() { return RankTopology::gather(world()).local_size(); }

TEST(ChooseDevice, TakesTheOneOfTheLocalRankWhereAllSeeTheSame) {
  EXPECT_EQ(choose_device(world(), plenty()), local_rank());
}

TEST(ChooseDevice, TakesTheOnlyOneWhereALauncherGaveEachItsOwn) {
  const Uuids own{"GPU-" + std::to_string(world().rank())};
  EXPECT_EQ(choose_device(world(), own), 0);
}

TEST(ChooseDevice, TakesNoneThatAnEarlierRankTook) {
  // Each sees its neighbours' too, its own last.
  Uuids seen = plenty();
  seen.resize(static_cast<std::size_t>(local_rank()) + 1);
  EXPECT_EQ(choose_device(world(), seen), local_rank());
}

TEST(ChooseDevice, DealsContiguousBlocksOfRanksWhereTheyAreMoreThanGpus) {
  for (int gpus = 1; gpus <= local_size(); ++gpus) {
    if (local_size() % gpus != 0) continue;
    Uuids seen = plenty();
    seen.resize(static_cast<std::size_t>(gpus));
    EXPECT_EQ(choose_device(world(), seen), local_rank() / (local_size() / gpus)) << gpus;
  }
}

TEST(ChooseDevice, GroupsByUuidWhereRanksSeeThemInOtherOrders) {
  if (local_size() != 4) return;
  const Uuids seen = local_rank() % 2 == 0 ? Uuids{"GPU-a", "GPU-b"} : Uuids{"GPU-b", "GPU-a"};
  // Ranks 0 and 2 take a, which they see first, 1 and 3 take b, which these do.
  EXPECT_EQ(choose_device(world(), seen), 0);
}

TEST(ChooseDevice, KeepsRanksOnTheSharedGpuThatALauncherGaveThem) {
  if (local_size() != 4) return;
  EXPECT_EQ(choose_device(world(), Uuids{local_rank() < 2 ? "GPU-b" : "GPU-a"}), 0);
}

TEST(ChooseDevice, SaysOnAllRanksWhatWouldFitWhereTheyCannotBeDealtEvenly) {
  if (local_size() < 3) return;
  Uuids fewer = plenty();
  fewer.resize(static_cast<std::size_t>(local_size()) - 1);
  const std::string message = message_of<InputError>([&] { choose_device(world(), fewer); });
  const std::string wanted =
      local_size() == 3
          ? ": 3 ranks cannot be dealt evenly to its 2 GPUs; start 2 or 4 ranks there"
          : ": 4 ranks cannot be dealt evenly to its 3 GPUs; start 3 or 6 ranks there";
  EXPECT_NE(message.find(wanted), std::string::npos) << message;
  expect_same_everywhere(message);
}

TEST(ChooseDevice, NamesARankWhoseOnlyGpuIsTaken) {
  if (local_size() != 2) return;
  const Uuids seen = local_rank() == 0 ? Uuids{"GPU-a", "GPU-b"} : Uuids{"GPU-a"};
  const std::string message = message_of<InputError>([&] { choose_device(world(), seen); });
  EXPECT_NE(message.find(": rank 1 may use GPU-a alone, taken by earlier ranks; let it see "),
            std::string::npos)
      << message;
  expect_same_everywhere(message);
}

TEST(ChooseDevice, NamesARankThatSeesNone) {
  const int blind = world().size() - 1;
  const std::string message = message_of<InputError>(
      [&] { choose_device(world(), world().rank() == blind ? Uuids() : plenty()); });
  EXPECT_EQ(message.rfind("rank " + std::to_string(blind) + " on host ", 0), 0U) << message;
  EXPECT_NE(message.find("sees no GPU"), std::string::npos) << message;
  expect_same_everywhere(message);
}

TEST(ChooseDevice, SaysWhyARankSeesNone) {
  const bool blind = world().rank() == world().size() - 1;
  const std::string message = message_of<InputError>([&] {
    choose_device(world(), blind ? Uuids() : plenty(), blind ? "the driver is old; update it" : "");
  });
  EXPECT_EQ(message.rfind("rank " + std::to_string(world().size() - 1) + " on host ", 0), 0U)
      << message;
  const std::string end =
      " can use no GPU: the driver is old; update it, or set train.device = \"cpu\"";
  EXPECT_EQ(message.substr(message.size() - end.size()), end) << message;
  expect_same_everywhere(message);
}

TEST(OneRankPerDevice, NamesTheRanksThatShareOne) {
  const std::vector<RankPlace> places{
      {"a", "a", "GPU-1"}, {"a", "a", "GPU-2"}, {"b", "b", "GPU-1"}, {"a", "a", "GPU-2"}};
  EXPECT_EQ(message_of<InputError>([&] { check_one_rank_per_device(RankTopology(places, 0)); }),
            "ranks 1 and 3 share GPU-2; start one rank per GPU (mpirun -n 3)");
  const std::vector<RankPlace> apart(places.begin(), places.begin() + 3);
  EXPECT_NO_THROW(check_one_rank_per_device(RankTopology(apart, 0)));
}

TEST(InstancesOfOneCard, AreRefusedWithTheirRanks) {
  const int size = world().size();
  std::vector<RankPlace> places;
  for (int rank = 0; rank < size; ++rank) {
    places.push_back({"here", "here", "MIG-" + std::to_string(rank)});
  }
  const RankTopology apart(places, world().rank());
  const auto check = [&](const RankTopology& topology, const std::string& card) {
    check_one_instance_per_card(world(), topology, card);
  };
  EXPECT_NO_THROW(check(apart, "0000:3b:0" + std::to_string(world().rank())));
  EXPECT_NO_THROW(check(apart, "")) << "unknown";
  for (RankPlace& place : places) place.device = "MIG-0";
  EXPECT_NO_THROW(check(RankTopology(places, world().rank()), "0000:3b:00")) << "the same one";
  for (int rank = 0; rank < size; ++rank) {
    RankPlace& place = places[static_cast<std::size_t>(rank)];
    place = {std::to_string(rank), std::to_string(rank), "MIG-" + std::to_string(rank)};
  }
  EXPECT_NO_THROW(check(RankTopology(places, world().rank()), "0000:3b:00")) << "other hosts";
  if (size == 1) return;
  EXPECT_EQ(
      message_of<InputError>([&] { check(apart, "0000:3b:00"); }),
      "ranks 0 and 1 compute on MIG instances of one card (0000:3b:00 of here), between which "
      "NCCL passes nothing; give the job one instance of each card (--gpus, "
      "CUDA_VISIBLE_DEVICES), or ranks that share one instance");
}

TEST(SameFacts, AreAccepted) {
  EXPECT_NO_THROW(check_same_facts(world(), std::vector<DeviceFact>{{"NCCL", "2.28.9", "-"}}));
  EXPECT_NO_THROW(check_same_facts(world(), {}));
}

TEST(SameFacts, OtherwiseTheFirstThatDiffersIsNamedWithItsRanks) {
  if (world().size() == 1) return;
  const bool odd = world().rank() == world().size() - 1;
  const std::vector<DeviceFact> facts{{"CUDA", "13.0", "a"},
                                      {"cuDNN", odd ? "9.8.0" : "9.19.0", "install one version"},
                                      {"NCCL", odd ? "2.18.1" : "2.28.9", "c"}};
  const std::string message = message_of<InputError>([&] { check_same_facts(world(), facts); });
  EXPECT_EQ(message.rfind("the ranks differ in cuDNN: rank", 0), 0U) << message;
  const RankTopology topology = RankTopology::gather(world());
  const std::string& host = topology.host_name(topology.host_of(topology.size() - 1));
  EXPECT_NE(message.find("rank " + std::to_string(topology.size() - 1) + " on " + host +
                         " has 9.8.0; install one"),
            std::string::npos)
      << message;
  expect_same_everywhere(message);
}

TEST(MixedModels, AreToldWithTheirRanks) {
  EXPECT_EQ(mixed_models(world(), "NVIDIA H200"), "");
  if (world().size() == 1) return;
  const bool odd = world().rank() == world().size() - 1;
  const std::string message = mixed_models(world(), odd ? "NVIDIA A100" : "NVIDIA H200");
  EXPECT_EQ(message.rfind("the ranks' GPUs differ: rank", 0), 0U) << message;
  EXPECT_NE(message.find("rank " + std::to_string(world().size() - 1) + " on "), std::string::npos)
      << message;
  EXPECT_NE(message.find(" has NVIDIA A100; the slowest sets the pace"), std::string::npos)
      << message;
  expect_same_everywhere(message);
}

TEST(WhoHasWhat, NamesRanksAndHosts) {
  const std::vector<std::string> texts{"9.19", "9.8", "9.19", "9.8", "9.8"};
  const std::vector<std::string> hosts{"a", "b", "a", "b", "c"};
  EXPECT_EQ(who_has_what(texts), "ranks 0 and 2 have 9.19; ranks 1, 3 and 4 have 9.8");
  EXPECT_EQ(who_has_what(texts, hosts),
            "ranks 0 and 2 on a have 9.19; ranks 1, 3 and 4 on b and c have 9.8");
}

}  // namespace
}  // namespace tandem
