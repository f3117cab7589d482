#include "parallel/shared_choices.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/heartbeat.h"
#include "base/last_words.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi_test.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

/// What a plan's making does: takes a kernel for each key, and chooses one where it is missing.
class Taker {
 public:
  explicit Taker(KernelChoices& choices) : choices_(choices) {}

  void take(const std::string& key) {
    if (!choices_.find(key)) {
      choices_.make([&] {
        if (choices_.find(key)) return;
        if (choices_.lent(key)) return choices_.borrow(key);
        std::this_thread::sleep_for(duration);
        const std::string name = "by rank " + std::to_string(world().rank());
        if (fits) {
          choices_.record(key, name);
        } else {
          choices_.remember(key, name);
        }
      });
    }
    taken_ += key + " " + choices_.find(key).value_or("nobody") + "; ";
  }
  const std::string& taken() const { return taken_; }

  std::chrono::milliseconds duration{0};
  bool fits = true;  // else nothing is chosen, for want of memory, and something used all the same

 private:
  KernelChoices& choices_;
  std::string taken_;
};

TEST(SharedChoices, TheLowestRankChoosesForAll) {
  KernelChoices choices({}, "device");
  Taker taker(choices);
  choose_together(world(), &choices, [&] {
    taker.take("a");
    taker.take("b");
  });
  EXPECT_EQ(taker.taken(), "a by rank 0; b by rank 0; ");
  EXPECT_EQ(choices.made(), world().rank() == 0 ? 2U : 0U);
  // Of what a later plan needs, only the rest is chosen.
  choose_together(world(), &choices, [&] {
    taker.take("b");
    taker.take("c");
  });
  EXPECT_EQ(taker.taken(), "a by rank 0; b by rank 0; b by rank 0; c by rank 0; ");
  EXPECT_EQ(choices.made(), world().rank() == 0 ? 3U : 0U);
}

TEST(SharedChoices, WhatTheLeaderUsesUnchosenTheOthersUseToo) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  {
    KernelChoices choices(file, "device");
    Taker taker(choices);
    taker.fits = world().rank() > 0;
    choose_together(world(), &choices, [&] { taker.take("a"); });
    EXPECT_EQ(taker.taken(), "a by rank 0; ");
    EXPECT_EQ(choices.made(), 0U);
  }
  EXPECT_EQ(KernelChoices(file).text(), "");
}

TEST(SharedChoices, WhatTheLeaderBorrowsTheOthersUseTooAndNobodyKeeps) {
  for (const int lent_to : {0, world().size() - 1}) {
    const TemporaryFolder folder;  // of this rank alone
    const auto file = folder / "kernels.txt";
    const auto lender = folder / "lender.txt";
    KernelChoices(lender).record("a", "lent");
    const bool borrows = world().rank() == lent_to;
    {
      KernelChoices choices(file, "device", borrows ? lender : std::filesystem::path());
      Taker taker(choices);
      choose_together(world(), &choices, [&] {
        taker.take("a");
        taker.take("b");
      });
      EXPECT_EQ(taker.taken(),
                lent_to == 0 ? "a lent; b by rank 0; " : "a by rank 0; b by rank 0; ");
    }
    EXPECT_EQ(KernelChoices(file).text(), lent_to == 0 ? "" : "a\tby rank 0\nb\tby rank 0\n");
    if (world().size() == 1) return;
  }
}

TEST(SharedChoices, TheLeadersGoBeforeOnesOwn) {
  KernelChoices choices({}, "device");
  const std::string mine = "earlier by rank " + std::to_string(world().rank());
  choices.record("a", mine);
  if (world().rank() > 0) choices.record("b", mine);  // whoever leads has not got it
  Taker taker(choices);
  choose_together(world(), &choices, [&] {
    taker.take("a");
    taker.take("b");
  });
  EXPECT_EQ(taker.taken(), "a earlier by rank 0; b by rank 0; ");
}

TEST(SharedChoices, EachKindHasALeader) {
  const int kind = world().rank() % 2;
  KernelChoices choices({}, "device " + std::to_string(kind));
  Taker taker(choices);
  // The second kind misses nothing, or only later, or more.
  choose_together(world(), &choices, [&] {
    if (kind == 0) taker.take("a");
    taker.take("b");
    if (kind == 1) taker.take("c");
  });
  EXPECT_EQ(taker.taken(), kind == 0 ? "a by rank 0; b by rank 0; " : "b by rank 1; c by rank 1; ");
  EXPECT_EQ(choices.text(),
            kind == 0 ? "a\tby rank 0\nb\tby rank 0\n" : "b\tby rank 1\nc\tby rank 1\n");
}

TEST(SharedChoices, NobodyChoosesWhereNothingIsMissing) {
  KernelChoices choices({}, "device");
  choices.record("a", "1");
  Taker taker(choices);
  choose_together(world(), &choices, [&] { taker.take("a"); });
  EXPECT_EQ(taker.taken(), "a 1; ");
  EXPECT_EQ(choices.made(), 1U);
  choose_together(world(), nullptr, [&] { taker.take("a"); });
  EXPECT_EQ(taker.taken(), "a 1; a 1; ");
}

TEST(SharedChoices, AreKeptBeforeTheRunGoesOn) {
  const TemporaryFolder folder;
  KernelChoices choices(folder / "choices", "device");
  Taker taker(choices);
  choose_together(world(), &choices, [&] {
    taker.take("a");
    taker.take("b");  // so soon behind the first one that it would be written later
  });
  const KernelChoices later(folder / "choices", "device");
  EXPECT_TRUE(later.find("a"));
  EXPECT_TRUE(later.find("b"));
}

TEST(SharedChoices, AreMadeAtOnceAgainAfterwards) {
  KernelChoices choices({}, "device");
  Taker taker(choices);
  choose_together(world(), &choices, [] {});
  taker.take("a");
  EXPECT_EQ(taker.taken(), "a by rank " + std::to_string(world().rank()) + "; ");
  EXPECT_EQ(message_of<Error>([&] {
              choose_together(world(), &choices, [] { throw Error("no memory"); });
            }).substr(0, 9),
            "no memory");
  taker.take("b");
  const std::string mine = "by rank " + std::to_string(world().rank());
  EXPECT_EQ(choices.find("b"), mine);
}

TEST(SharedChoices, ALongChoiceIsNotTakenForAHang) {
  if (world().size() < 2) return;
  constexpr double timeout = 2.0;
  MpiCommunicator ranks({.timeout_seconds = timeout});
  KernelChoices choices({}, "device");
  Taker taker(choices);
  taker.duration = std::chrono::milliseconds(static_cast<int>(2500 * timeout));
  choose_together(ranks, &choices, [&] { taker.take("a"); });
  EXPECT_EQ(taker.taken(), "a by rank 0; ");
  world().barrier();
}

// As of a kernel that never ends: the others wait for as long as the choosing rank lives.
TEST(SharedChoices, AChoiceThatHangsIsToldByItsRank) {
  if (world().size() < 2) return;
  constexpr double timeout = 2.0;
  MpiCommunicator ranks({.timeout_seconds = timeout});
  KernelChoices choices({}, "device");
  std::promise<std::string> told;
  speak_last_words(
      std::chrono::milliseconds(0),
      [&](const std::string& words, std::chrono::milliseconds) { told.set_value(words); });
  std::string words;
  {
    const HeartbeatWatch watch(timeout, ranks.rank());
    choose_together(ranks, &choices, [&] {
      if (choices.find("a")) return;
      choices.make([&] {
        if (choices.find("a")) return;
        words = told.get_future().get();
        choices.record("a", "1");
      });
    });
    ranks.barrier();
  }
  silence_last_words();
  EXPECT_EQ(words.starts_with("nothing has moved for "), ranks.rank() == 0) << words;
  EXPECT_EQ(choices.find("a"), "1");
  world().barrier();
}

TEST(SharedChoices, ALongChoiceOfWhatTheLeaderHasNoUseForIsNotTakenForAHang) {
  if (world().size() < 2) return;
  constexpr double timeout = 2.0;
  MpiCommunicator ranks({.timeout_seconds = timeout});
  KernelChoices choices({}, "device");
  Taker taker(choices);
  taker.duration = std::chrono::milliseconds(static_cast<int>(2500 * timeout));
  choose_together(ranks, &choices, [&] {
    if (ranks.rank() == 1) taker.take("a");
  });
  ranks.barrier();
  EXPECT_EQ(taker.taken(), ranks.rank() == 1 ? "a by rank 1; " : "");
  world().barrier();
}

}  // namespace
}  // namespace tandem
