#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi_test.h"

namespace tandem {
namespace {

/// The ranks of `whole` with this rank's color, ascending.
std::vector<std::int32_t> expected_ranks(const Communicator& whole, int (*color_of)(int)) {
  std::vector<std::int32_t> ranks;
  for (int rank = 0; rank < whole.size(); ++rank) {
    if (color_of(rank) == color_of(whole.rank())) ranks.push_back(rank);
  }
  return ranks;
}

void expect_parts(Communicator& whole, int (*color_of)(int)) {
  const std::vector<std::int32_t> expected = expected_ranks(whole, color_of);
  const auto part = whole.split(color_of(whole.rank()));
  ASSERT_EQ(part->size(), static_cast<int>(expected.size()));
  EXPECT_EQ(part->name(), whole.name());
  EXPECT_TRUE(part->is_host());
  std::vector<std::int32_t> mine{whole.rank()};
  std::vector<std::int32_t> ranks(expected.size());
  part->all_gather(view(mine), view(ranks));
  EXPECT_EQ(ranks, expected);
  EXPECT_EQ(ranks[static_cast<std::size_t>(part->rank())], whole.rank());
}

TEST(Split, GroupsRanksByColorInTheirOrder) {
  expect_parts(world(), [](int) { return 0; });
  expect_parts(world(), [](int rank) { return rank; });
  expect_parts(world(), [](int rank) { return rank % 2; });
  expect_parts(world(), [](int rank) { return rank == 0 ? 1'000'000 : 3; });
}

TEST(Split, PartsAreIndependentOfOneAnother) {
  const int color = world().rank() % 2;
  const auto part = world().split(color);
  // Another number of collectives in each, and the whole's in between.
  for (int round = 0; round < 1 + 3 * color; ++round) {
    std::vector<float> values(100, 1.0F);
    const auto request = part->all_reduce_async(view(values), ReduceOp::sum);
    if (round == 0) world().barrier();
    request->wait();
    EXPECT_EQ(values, std::vector<float>(100, static_cast<float>(part->size())));
  }
}

TEST(Split, PartsCanBeSplit) {
  const auto all = world().split(0);
  expect_parts(*all, [](int rank) { return rank / 2; });
}

TEST(Split, SplitsMessagesAsTheWholeDoes) {
  Communicator* splitting = splitting_world();
  ASSERT_NE(splitting, nullptr);
  const auto part = splitting->split(splitting->rank() % 2);
  std::vector<float> values(101, 2.0F);
  part->all_reduce(view(values), ReduceOp::sum);
  EXPECT_EQ(values, std::vector<float>(101, 2.0F * static_cast<float>(part->size())));
}

TEST(Split, TimeOutsNameRanksOfTheWholeJob) {
  if (world().size() < 3) return;
  constexpr double timeout = 2.0;
  auto& whole = outliving_operations<MpiCommunicator>(MpiOptions{.timeout_seconds = timeout});
  const int silent = whole.size() - 1;
  const auto& part =
      outliving_operations<std::unique_ptr<Communicator>>(whole.split(whole.rank() == 0 ? 0 : 1));
  if (whole.rank() == silent) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * timeout));
    part->barrier();
  } else if (whole.rank() > 0) {
    EXPECT_EQ(message_of<CommunicationTimeout>([&] { part->barrier(); }),
              "waited 2 s in barrier (0 elements) for rank " + std::to_string(silent) +
                  ", which gives no sign of life");
  } else {
    // Waits too, so that it is heard of by the ranks of the other part.
    message_of<CommunicationTimeout>(
        [&] { part->wait_until([] { return false; }, [] { return std::string("the others"); }); });
  }
  world().barrier();
}

TEST(Split, SignsOfWorkReachTheOtherParts) {
  if (world().size() < 2) return;
  constexpr double timeout = 2.0;
  MpiCommunicator whole({.timeout_seconds = timeout});
  const auto part = whole.split(whole.rank());
  if (whole.rank() == 0) {
    for (int i = 0; i < 30; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(0.1 * timeout));
      part->still_working();
    }
  }
  whole.barrier();
}

}  // namespace
}  // namespace tandem
