#include "parallel/gradient_bucketer.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/philox.h"
#include "parallel/mpi_test.h"
#include "parallel/slice_share.h"
#include "parallel/test_patience.h"

namespace tandem {
namespace {

/// 37 slices of odd sizes, one of them empty and one large, each start aligned to 16 elements.
std::vector<ParameterSlice> test_slices() {
  std::vector<ParameterSlice> slices;
  std::int64_t offset = 0;
  for (int i = 0; i < 37; ++i) {
    const std::int64_t elements = i == 5 ? 0 : i == 20 ? 50'001 : 1 + (i * 389) % 2003;
    slices.push_back({"layer" + std::to_string(i) + ".weight", offset, elements});
    offset = (offset + elements + 15) / 16 * 16;
  }
  return slices;
}

constexpr BucketOptions small_buckets{.first_bytes = 4096, .bytes = 32'768};

struct Step {
  std::vector<ParameterSlice> slices = test_slices();
  std::vector<float> gradients =
      std::vector<float>(static_cast<std::size_t>(slices.back().offset + slices.back().elements));
  GradientBucketer bucketer{world(), view(gradients), slices, cut_buckets(slices, small_buckets)};

  /// What `rank` computes for slice i, element by element; whole numbers.
  static float value(int rank, int step, std::size_t i, std::int64_t element) {
    return static_cast<float>((rank * 31 + step * 7 + static_cast<int>(i) * 3 + element) % 101);
  }
  void compute(std::size_t i, int step) {
    for (std::int64_t e = 0; e < slices[i].elements; ++e) {
      gradients[static_cast<std::size_t>(slices[i].offset + e)] = value(world().rank(), step, i, e);
    }
    bucketer.ready(i);
  }
  void expect_sums(int step) const {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      for (std::int64_t e = 0; e < slices[i].elements; ++e) {
        float sum = 0.0F;
        for (int rank = 0; rank < world().size(); ++rank) sum += value(rank, step, i, e);
        ASSERT_EQ(gradients[static_cast<std::size_t>(slices[i].offset + e)], sum)
            << slices[i].name << " element " << e;
      }
    }
  }
  /// Sums in this rank's share of each bucket, elsewhere its own gradients.
  void expect_sums_in_shares(int step) const {
    std::vector<ArenaRange> shares;
    for (const Bucket& bucket : bucketer.buckets()) {
      const ArenaRange share = share_of({0, bucket.elements}, world().size(), world().rank());
      shares.push_back({bucket.offset + share.begin, bucket.offset + share.end});
    }
    for (std::size_t i = 0; i < slices.size(); ++i) {
      for (std::int64_t e = 0; e < slices[i].elements; ++e) {
        const std::int64_t at = slices[i].offset + e;
        const bool mine = std::ranges::any_of(
            shares, [&](const ArenaRange& share) { return at >= share.begin && at < share.end; });
        float expected = value(world().rank(), step, i, e);
        for (int rank = 0; mine && rank < world().size(); ++rank) {
          if (rank != world().rank()) expected += value(rank, step, i, e);
        }
        ASSERT_EQ(gradients[static_cast<std::size_t>(at)], expected) << slices[i].name << " " << e;
      }
    }
  }
};

std::vector<std::size_t> shuffled(std::size_t count, RandomStream random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

TEST(GradientBucketer, SumsInTheOrderOfBackward) {
  Step s;
  ASSERT_GE(s.bucketer.buckets().size(), 5U);
  for (int step = 0; step < 3; ++step) {
    s.bucketer.begin_step();
    for (std::size_t i = 0; i < s.slices.size(); ++i) {
      s.compute(i, step);
      s.bucketer.progress();
    }
    s.bucketer.finish();
    s.expect_sums(step);
  }
}

TEST(GradientBucketer, SumsWhateverTheOrderEvenOneOfEachRank) {
  Step s;
  for (int step = 0; step < 20; ++step) {
    // Even steps: the same random order on all ranks. Odd ones: each rank its own.
    const int stream = step % 2 == 0 ? 0 : world().rank();
    RandomStream random(99, static_cast<std::uint64_t>(step * 16 + stream));
    s.bucketer.begin_step();
    for (const std::size_t i : shuffled(s.slices.size(), random)) s.compute(i, step);
    s.bucketer.finish();
    s.expect_sums(step);
  }
}

TEST(GradientBucketer, SumsWhenRanksAreReadyAtDifferentTimes) {
  Step s;
  for (int step = 0; step < 4; ++step) {
    RandomStream random(7, static_cast<std::uint64_t>(step * 16 + world().rank()));
    s.bucketer.begin_step();
    for (std::size_t i = 0; i < s.slices.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
      s.compute(i, step);
      s.bucketer.progress();
    }
    s.bucketer.finish();
    s.expect_sums(step);
  }
}

TEST(GradientBucketer, CountsWhatItReduces) {
  Step s;
  s.bucketer.begin_step();
  for (std::size_t i = 0; i < s.slices.size(); ++i) s.compute(i, 0);
  s.bucketer.finish();
  std::int64_t bytes = 0;
  for (const Bucket& bucket : s.bucketer.buckets()) bytes += bucket.elements * 4;
  const auto buckets = static_cast<std::int64_t>(s.bucketer.buckets().size());
  const ReductionStats stats = s.bucketer.take_stats();
  EXPECT_EQ(stats.bytes, world().size() == 1 ? 0 : bytes);
  EXPECT_EQ(stats.messages, world().size() == 1 ? 0 : buckets);
  EXPECT_GE(stats.exposed_seconds, 0.0);
  EXPECT_LT(stats.exposed_seconds, 60.0);
  EXPECT_EQ(s.bucketer.take_stats().bytes, 0);
}

TEST(GradientBucketer, ExposesTheTimeSpentWaitingForASlowRank) {
  if (world().size() == 1) return;
  Step s;
  s.bucketer.begin_step();
  world().barrier();
  if (world().rank() == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(patient(2.0)));
  }
  for (std::size_t i = 0; i < s.slices.size(); ++i) s.compute(i, 0);
  s.bucketer.finish();
  if (world().rank() != 0) {
    EXPECT_GT(s.bucketer.take_stats().exposed_seconds, 0.1);
  }
}

/// Sums shares at once, by the host's communicator.
class HostPeers final : public PeerDevices {
 public:
  int members() const override { return world().size(); }
  int member() const override { return world().rank(); }
  std::vector<float*> arenas(const Tensor& /*arena*/) const override { return {}; }
  void sum_share(const Tensor& slice, std::string_view /*label*/,
                 const std::function<void()>& update) override {
    std::vector<float> sums(slice.span<float>().begin(), slice.span<float>().end());
    world().all_reduce(view(sums), ReduceOp::sum);
    const ArenaRange share = share_of({0, slice.elements()}, members(), member());
    std::copy(sums.begin() + share.begin, sums.begin() + share.end,
              slice.data<float>() + share.begin);
    update();
  }
  std::unique_ptr<Request> finish_shares() override {
    ++finished;
    return std::make_unique<DoneRequest>();
  }
  void wait_for_context(std::string_view /*what*/) override {}

  int finished = 0;

 private:
  struct DoneRequest final : Request {
    bool test() override { return true; }
    void wait() override {}
  };
};

TEST(GradientBucketer, GivesSharesToWhoUpdatesThem) {
  Step s;
  HostPeers peers;
  std::vector<std::size_t> updated;
  s.bucketer.update_shares(peers, [&](std::size_t bucket) { updated.push_back(bucket); });
  for (int step = 0; step < 2; ++step) {
    updated.clear();
    s.bucketer.begin_step();
    for (std::size_t i = s.slices.size(); i-- > 0;) s.compute(i, step);
    s.bucketer.finish();
    std::vector<std::size_t> all(s.bucketer.buckets().size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (world().size() == 1) all.clear();  // launches nothing
    EXPECT_EQ(updated, all);
    EXPECT_EQ(peers.finished, step + 1);
    s.expect_sums_in_shares(step);
  }
  s.bucketer.begin_step();
  EXPECT_THROW(s.bucketer.update_shares(peers, {}), Error);
}

}  // namespace
}  // namespace tandem
