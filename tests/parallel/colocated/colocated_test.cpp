#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/philox.h"
#include "base/shared_memory.h"
#include "parallel/colocated/host_reduction.h"
#include "parallel/colocated/shared_memory_communicator.h"
#include "parallel/mapped/shared_segment.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi_test.h"
#include "support/scoped_variable.h"

// What is true of ranks that share memory alone; what is true of every kind is tested of them too.

namespace tandem {
namespace {

RankTopology topology_of_tests(const Communicator& communicator) {
  std::vector<RankPlace> places(static_cast<std::size_t>(communicator.size()));
  const std::vector<std::vector<int>> devices = devices_of_ranks();
  for (std::size_t host = 0; host < devices.size(); ++host) {
    const std::string name = "host " + std::to_string(host);
    for (const int rank : devices[host]) {
      places[static_cast<std::size_t>(rank)] = {.host = name, .host_id = name, .device = {}};
    }
  }
  return {std::move(places), communicator.rank()};
}

/// What shm_open() of this process made and nobody has unlinked.
int names_of_this_process() {
  const std::string beginning = "tandem-" + std::to_string(getpid()) + "-";
  int names = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names += static_cast<int>(entry.path().filename().string().starts_with(beginning));
  }
  return names;
}

std::vector<float> awkward_values(int rank, std::size_t count) {
  RandomStream random(23, static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = random.normal() * std::exp(4.0F * random.normal());
  return values;
}

TEST(Colocated, IsNamedByItsHosts) {
  EXPECT_EQ(world().name(), devices_of_ranks().size() == 1 ? "colocated" : "hierarchical");
  EXPECT_TRUE(world().is_host());
}

TEST(Colocated, SegmentsHaveNoNamesLeft) {
  EXPECT_EQ(names_of_this_process(), 0);
  std::vector<float> values(10, 1.0F);
  world().all_reduce(view(values), ReduceOp::sum);
  EXPECT_EQ(values, std::vector<float>(10, static_cast<float>(world().size())));
}

// In the order of the ranks on each host, then of the hosts: of two of those either order gives the
// same bits.
TEST(Colocated, AddsUpHostByHost) {
  const std::vector<std::vector<int>> devices = devices_of_ranks();
  ASSERT_LE(devices.size(), 2U);
  constexpr std::size_t count = 200'003;
  std::vector<float> expected(count);
  for (std::size_t host = 0; host < devices.size(); ++host) {
    std::vector<float> sums = awkward_values(devices[host].front(), count);
    for (std::size_t r = 1; r < devices[host].size(); ++r) {
      const std::vector<float> theirs = awkward_values(devices[host][r], count);
      for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
    }
    for (std::size_t i = 0; i < count; ++i)
      expected[i] = host == 0 ? sums[i] : expected[i] + sums[i];
  }
  std::vector<float> values = awkward_values(world().rank(), count);
  world().all_reduce(view(values), ReduceOp::sum);
  EXPECT_EQ(values, expected);
}

TEST(Colocated, TakesMoreThanItsMemoryHolds) {
  constexpr std::size_t count = 6'000'001;
  std::vector<std::vector<float>> values(2, std::vector<float>(count));
  for (std::size_t i = 0; i < count; ++i) {
    values[0][i] = contribution<float>(world().rank(), i);
    values[1][i] = contribution<float>(world().rank() + 1, i);
  }
  const auto first = world().all_reduce_async(view(values[0]), ReduceOp::sum);
  const auto second = world().all_reduce_async(view(values[1]), ReduceOp::max);
  world().barrier();  // waits for nothing but the ranks
  second->wait();
  EXPECT_TRUE(first->test());
  for (std::size_t i = 0; i < count; i += 1009) {
    float sum = 0.0F;
    float max = 0.0F;
    for (int rank = 0; rank < world().size(); ++rank) {
      sum += contribution<float>(rank, i);
      max = std::max(max, contribution<float>(rank + 1, i));
    }
    ASSERT_EQ(values[0][i], sum) << i;
    ASSERT_EQ(values[1][i], max) << i;
  }
}

TEST(Colocated, TestsDoNotWaitForOtherRanks) {
  if (world().size() == 1) return;
  std::vector<float> values(100, 1.0F);
  if (world().rank() == 0) {
    const auto request = world().all_reduce_async(view(values), ReduceOp::sum);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(request->test());
    world().barrier();
    request->wait();
  } else {
    world().barrier();
    world().all_reduce(view(values), ReduceOp::sum);
  }
  EXPECT_EQ(values[99], static_cast<float>(world().size()));
}

TEST(Colocated, TimeOutsNameTheSilentRank) {
  if (world().size() == 1) return;
  constexpr double timeout = 2.0;
  MpiCommunicator hosts({.timeout_seconds = timeout});
  SharedMemoryCommunicator group(hosts, topology_of_tests(hosts));
  std::vector<float> values(1234, 1.0F);
  const auto begin = [&] {
    return group.all_reduce_async(view(values), ReduceOp::sum, "gradient bucket 1 of 3");
  };
  const int silent = group.size() - 1;
  std::unique_ptr<Request> request;
  if (group.rank() == silent) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * timeout));
  } else {
    request = begin();
    EXPECT_EQ(message_of<CommunicationTimeout>([&] { request->wait(); }),
              "waited 2 s in all_reduce_async of gradient bucket 1 of 3 (1,234 elements) for "
              "rank " +
                  std::to_string(silent) + ", which gives no sign of life");
  }
  // MPI ends well only where what was begun is finished.
  world().barrier();
  if (group.rank() == silent) request = begin();
  request->wait();
}

TEST(Colocated, RanksOfAHostShareMemoryAndWaitForEachOther) {
  SharedDevice* host = world().shared_device();
  if (static_cast<int>(devices_of_ranks().size()) == world().size()) {
    EXPECT_EQ(host, nullptr);  // each rank has a host of its own
    return;
  }
  ASSERT_NE(host, nullptr);
  EXPECT_TRUE(host->has_room(std::vector<std::size_t>{1 << 20, 100}));
  EXPECT_FALSE(host->has_room(std::vector<std::size_t>{100, std::size_t{1} << 50}));
  constexpr std::size_t each = 1000;
  const auto members = static_cast<std::size_t>(host->members());
  auto* values =
      reinterpret_cast<std::int64_t*>(host->allocate(members * each * sizeof(std::int64_t)));
  const std::size_t mine = static_cast<std::size_t>(host->member()) * each;
  std::int64_t wrong = 0;
  for (std::int64_t round = 1; round <= 200; ++round) {
    for (std::size_t i = 0; i < each; ++i) wrong += values[mine + i] != round - 1 ? 1 : 0;
    std::fill_n(values + mine, each, round);
    host->wait_for_each_other();
    for (std::size_t i = 0; i < members * each; ++i) wrong += values[i] != round ? 1 : 0;
    host->wait_for_each_other();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Colocated, ArenasOfTheSharedHostAreSummedWhereTheyLie) {
  SharedDevice* host = world().shared_device();
  if (host == nullptr) return;
  constexpr std::int64_t elements = 300'000;
  constexpr std::int64_t slices[][2] = {{0, 64}, {80, 1}, {96, 200'001}};  // first, count
  const std::size_t bytes = elements * sizeof(float);
  auto* mine = reinterpret_cast<float*>(host->allocate_arena(bytes));
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(world().attached_bytes(elements), 0U);
  const Tensor arena(mine, {elements});
  const Tensor sums = world().attach(arena);
  EXPECT_NE(sums.raw(), arena.raw());
  EXPECT_EQ(world().attached_bytes(elements), bytes / static_cast<std::size_t>(host->members()));
  for (int round = 0; round < 5; ++round) {
    const auto of = [&](int rank, std::int64_t i) {
      return contribution<float>(rank + round, static_cast<std::size_t>(i));
    };
    for (std::int64_t i = 0; i < elements; ++i) mine[i] = of(world().rank(), i);
    std::vector<std::unique_ptr<Request>> requests;
    for (const auto& [first, count] : slices) {
      requests.push_back(world().sum_attached_async(Tensor(mine + first, {count}), "slice"));
    }
    for (const auto& request : requests) request->wait();
    for (const auto& [first, count] : slices) {
      for (std::int64_t i = first; i < first + count; ++i) {
        float sum = 0.0F;
        for (int rank = 0; rank < world().size(); ++rank) sum += of(rank, i);
        ASSERT_EQ(sums.data<float>()[i], sum) << i << ", round " << round;
        ASSERT_EQ(mine[i], of(world().rank(), i));
      }
    }
    EXPECT_EQ(sums.data<float>()[70], 0.0F) << "between slices";
  }
  world().detach(arena);
  EXPECT_EQ(world().attached_bytes(elements), 0U);
}

/// Of this process, of files whose path has the part.
int mappings_in(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(part) != std::string::npos ? 1 : 0;
  }
  return count;
}

/// Of memory that ranks share.
int mappings_of_tests() { return mappings_in("/dev/shm/tandem-"); }

TEST(Colocated, RoomOnceTakenIsEnoughWhateverTheSizes) {
  SharedDevice* host = world().shared_device();
  if (host == nullptr) return;
  constexpr std::size_t bytes = 64 + 256 * 4;  // far from a multiple of the alignment
  std::vector<std::size_t> sizes(7, bytes);
  sizes.insert(sizes.end(), static_cast<std::size_t>(host->members()), bytes);
  ASSERT_TRUE(host->has_room(sizes));
  const int before = mappings_of_tests();
  (void)host->allocate_arena(bytes);
  for (int i = 0; i < 7; ++i) (void)host->allocate(bytes);
  EXPECT_EQ(mappings_of_tests(), before);
  (void)host->allocate(bytes);
  EXPECT_EQ(mappings_of_tests(), before + 1);
}

TEST(Colocated, OtherArenasAreTheirOwnSums) {
  SharedDevice* host = world().shared_device();
  if (host == nullptr) return;
  std::vector<float> values(100, 1.0F);
  EXPECT_EQ(world().attach(view(values)).raw(), values.data());
  world().detach(view(values));
  // Also where one rank alone has another kind, or another size, which is told elsewhere.
  auto* mine = reinterpret_cast<float*>(host->allocate_arena(100 * sizeof(float)));
  const bool odd = world().rank() == 0 && world().size() > 1;
  const Tensor arena = odd ? view(values) : Tensor(mine, {100});
  EXPECT_EQ(world().attach(arena).raw() == arena.raw(), world().size() > 1);
  world().detach(arena);
  const Tensor part(mine, {odd ? std::int64_t{50} : 100});
  EXPECT_EQ(world().attach(part).raw() == part.raw(), world().size() > 1);
  world().detach(part);
}

TEST(Colocated, SaysWhereThereIsNoRoom) {
  const auto make = [] {
    constexpr std::size_t tebi = std::size_t{1} << 40;
    const SharedSegment segment(world(), topology_of_tests(world()),
                                {.fixed = 64, .each = tebi, .most = 8, .least = 2});
  };
  const std::string message = message_of<InputError>(make);
  EXPECT_NE(message.find("/dev/shm of host 0 has no room for the 2.0 TiB"), std::string::npos)
      << message;
  EXPECT_NE(message.find("parallel.reduction = \"flat\""), std::string::npos) << message;
  expect_same_everywhere(message);
  EXPECT_EQ(names_of_this_process(), 0);
}

// What MPI keeps there too would end the ranks where it cannot grow.
TEST(Colocated, LeavesAnEighthOfTheSharedMemoryToOthers) {
  EXPECT_TRUE(fits_beside_others(55, 64, 64));
  EXPECT_FALSE(fits_beside_others(56, 64, 64));
  EXPECT_FALSE(fits_beside_others(1, 64, 8));
  EXPECT_TRUE(fits_beside_others(1, 64, 10));
  EXPECT_TRUE(fits_beside_others(1000, 0, 0)) << "without a limit";
}

// As those of a job do that the launcher started, which removes the folder.
TEST(Colocated, SegmentsAreMadeInTheFolderThatIsAskedFor) {
  std::string name = "/dev/shm/tandem-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  {
    const ScopedVariable folder(shared_memory_folder_variable, name.c_str());
    const SharedSegment segment(world(), topology_of_tests(world()),
                                {.fixed = 64, .each = 64, .most = 1, .least = 1});
    const std::vector<std::vector<int>> hosts = devices_of_ranks();
    const bool first = std::ranges::any_of(
        hosts, [](const std::vector<int>& ranks) { return ranks.front() == world().rank(); });
    EXPECT_EQ(mappings_in(name) == 1, first);
    EXPECT_TRUE(std::filesystem::is_empty(name)) << "nobody needs the name any more";
    world().barrier();
  }
  std::filesystem::remove(name);
  // One that is not there is none.
  const ScopedVariable gone(shared_memory_folder_variable, name.c_str());
  const SharedSegment segment(world(), topology_of_tests(world()),
                              {.fixed = 64, .each = 64, .most = 1, .least = 1});
  EXPECT_GT(segment.count(), 0);
  world().barrier();
}

TEST(HostReduction, IsMadeWhereItIsAskedForOrRanksShareAHost) {
  const RankTopology topology = topology_of_tests(world());
  EXPECT_EQ(make_host_reduction(world(), topology, ReductionKind::flat), nullptr);
  const auto chosen = make_host_reduction(world(), topology, ReductionKind::automatic);
  EXPECT_EQ(chosen != nullptr, topology.hosts() < topology.size());
  const auto asked = make_host_reduction(world(), topology, ReductionKind::two_level);
  ASSERT_EQ(asked != nullptr, topology.size() > 1);
  if (asked == nullptr) return;
  std::vector<float> values(10, 1.0F);
  asked->all_reduce(view(values), ReduceOp::sum);
  EXPECT_EQ(values, std::vector<float>(10, static_cast<float>(world().size())));
}

}  // namespace
}  // namespace tandem
