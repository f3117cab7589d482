#include <algorithm>

#include "parallel/mpi_test.h"

// Every collective against results computed from all ranks' known contributions, in whole messages
// and, where the kind splits long ones, in messages of a few elements.

namespace tandem {
namespace {

constexpr std::size_t sizes[] = {0, 1, 2, 3, 7, 64, 257, 1027, 65537};

template <typename T>
T combine(ReduceOp op, T a, T b) {
  if (op == ReduceOp::sum) return static_cast<T>(a + b);
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

/// Naive: element by element over the ranks.
template <typename T>
std::vector<T> reduced(ReduceOp op, int ranks, std::size_t count) {
  std::vector<T> result = contributions<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = combine(op, result[i], contribution<T>(rank, i));
    }
  }
  return result;
}

template <typename T>
class Collectives : public testing::Test {
 protected:
  /// check(communicator, count) for both message lengths and every size.
  template <typename Check>
  void for_all(Check check) {
    for (const std::size_t count : sizes) {
      SCOPED_TRACE(count);
      check(world(), count);
    }
    for (const std::size_t count : sizes) {
      if (count > 300 || splitting_world() == nullptr) continue;
      SCOPED_TRACE(testing::Message() << count << " in short messages");
      check(*splitting_world(), count);
    }
  }
};

using Types = testing::Types<float, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Collectives, Types);

constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};

TYPED_TEST(Collectives, SendAndRecvRoundTheRing) {
  this->for_all([](Communicator& c, std::size_t count) {
    if (c.size() == 1) return;
    const int to = (c.rank() + 1) % c.size();
    const int from = (c.rank() + c.size() - 1) % c.size();
    std::vector<TypeParam> mine = contributions<TypeParam>(c.rank(), count);
    std::vector<TypeParam> got(count);
    // Rank 0 sends first, so that the ring does not wait for itself at any message length.
    if (c.rank() == 0) c.send(view(mine), to);
    c.recv(view(got), from);
    if (c.rank() != 0) c.send(view(mine), to);
    EXPECT_EQ(got, contributions<TypeParam>(from, count));
  });
}

TYPED_TEST(Collectives, Broadcast) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (int root = 0; root < c.size(); ++root) {
      std::vector<TypeParam> values = contributions<TypeParam>(c.rank(), count);
      c.broadcast(view(values), root);
      EXPECT_EQ(values, contributions<TypeParam>(root, count));
    }
  });
}

TYPED_TEST(Collectives, AllReduce) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (const ReduceOp op : all_ops) {
      std::vector<TypeParam> values = contributions<TypeParam>(c.rank(), count);
      c.all_reduce(view(values), op);
      EXPECT_EQ(values, reduced<TypeParam>(op, c.size(), count));
    }
  });
}

TYPED_TEST(Collectives, AllReduceAsync) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (const ReduceOp op : all_ops) {
      std::vector<TypeParam> values = contributions<TypeParam>(c.rank(), count);
      c.all_reduce_async(view(values), op)->wait();
      EXPECT_EQ(values, reduced<TypeParam>(op, c.size(), count));
    }
  });
}

TYPED_TEST(Collectives, ReduceChangesTheRootAlone) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (int root = 0; root < c.size(); ++root) {
      for (const ReduceOp op : all_ops) {
        std::vector<TypeParam> values = contributions<TypeParam>(c.rank(), count);
        c.reduce(view(values), op, root);
        EXPECT_EQ(values, c.rank() == root ? reduced<TypeParam>(op, c.size(), count)
                                           : contributions<TypeParam>(c.rank(), count));
      }
    }
  });
}

/// Every rank's contributions, one after the other.
template <typename T>
std::vector<T> joined(int ranks, std::size_t count) {
  std::vector<T> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<T> block = contributions<T>(rank, count);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

std::size_t ranks(const Communicator& c) { return static_cast<std::size_t>(c.size()); }

TYPED_TEST(Collectives, AllGather) {
  this->for_all([](Communicator& c, std::size_t count) {
    std::vector<TypeParam> mine = contributions<TypeParam>(c.rank(), count);
    std::vector<TypeParam> all(count * ranks(c));
    c.all_gather(view(mine), view(all));
    EXPECT_EQ(all, joined<TypeParam>(c.size(), count));
  });
}

TYPED_TEST(Collectives, Gather) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (int root = 0; root < c.size(); ++root) {
      std::vector<TypeParam> mine = contributions<TypeParam>(c.rank(), count);
      std::vector<TypeParam> all(c.rank() == root ? count * ranks(c) : 0);
      c.gather(view(mine), c.rank() == root ? view(all) : Tensor(), root);
      if (c.rank() == root) {
        EXPECT_EQ(all, joined<TypeParam>(c.size(), count));
      }
    }
  });
}

/// The block of `values` that belongs to `rank`.
template <typename T>
std::vector<T> block_of(const std::vector<T>& values, int rank, std::size_t count) {
  const auto start = values.begin() + static_cast<std::ptrdiff_t>(count) * rank;
  return {start, start + static_cast<std::ptrdiff_t>(count)};
}

TYPED_TEST(Collectives, Scatter) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (int root = 0; root < c.size(); ++root) {
      const std::size_t whole = count * ranks(c);
      std::vector<TypeParam> all = contributions<TypeParam>(c.rank(), whole);
      std::vector<TypeParam> mine(count);
      c.scatter(c.rank() == root ? view(all) : Tensor(), view(mine), root);
      EXPECT_EQ(mine, block_of(contributions<TypeParam>(root, whole), c.rank(), count));
    }
  });
}

TYPED_TEST(Collectives, ReduceScatter) {
  this->for_all([](Communicator& c, std::size_t count) {
    for (const ReduceOp op : all_ops) {
      const std::size_t whole = count * ranks(c);
      std::vector<TypeParam> all = contributions<TypeParam>(c.rank(), whole);
      std::vector<TypeParam> mine(count);
      c.reduce_scatter(view(all), view(mine), op);
      EXPECT_EQ(mine, block_of(reduced<TypeParam>(op, c.size(), whole), c.rank(), count));
      EXPECT_EQ(all, contributions<TypeParam>(c.rank(), whole)) << "the input was changed";
    }
  });
}

TYPED_TEST(Collectives, AllToAll) {
  this->for_all([](Communicator& c, std::size_t count) {
    const std::size_t whole = count * ranks(c);
    std::vector<TypeParam> out = contributions<TypeParam>(c.rank(), whole);
    std::vector<TypeParam> in(whole);
    c.all_to_all(view(out), view(in));
    std::vector<TypeParam> expected;
    for (int from = 0; from < c.size(); ++from) {
      const auto block = block_of(contributions<TypeParam>(from, whole), c.rank(), count);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    EXPECT_EQ(in, expected);
  });
}

TEST(CollectivesOfAnyType, BarrierHoldsUntilTheLastRankCame) {
  Communicator& c = world();
  // Each rank in turn sends a token before it enters; whoever is past the barrier finds all of
  // them.
  std::vector<std::int32_t> token{c.rank()};
  if (c.rank() != 0) c.send(view(token), 0);
  c.barrier();
  if (c.rank() != 0) return;
  for (int from = 1; from < c.size(); ++from) {
    c.recv(view(token), from);
    EXPECT_EQ(token[0], from);
  }
}

TEST(CollectivesOfAnyType, MovesElementsThatItCannotReduce) {
  Communicator& c = world();
  std::vector<std::uint16_t> halves(33, static_cast<std::uint16_t>(c.rank() + 1));
  const Tensor tensor(halves.data(), {33}, DType::bf16);
  c.broadcast(tensor, c.size() - 1);
  EXPECT_EQ(halves, std::vector<std::uint16_t>(33, static_cast<std::uint16_t>(c.size())));
  EXPECT_NE(message_of<Error>([&] { c.all_reduce(tensor, ReduceOp::sum); }).find("bf16"),
            std::string::npos);
}

TEST(CollectivesOfAnyType, RefusesToSendToItself) {
  std::vector<float> values(1);
  EXPECT_NE(message_of<Error>([&] { world().send(view(values), world().rank()); }).find("itself"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
