#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "parallel/announced_work.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi_test.h"

namespace tandem {
namespace {

constexpr double timeout = 2.0;
constexpr MpiOptions with_timeout{.timeout_seconds = timeout};

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Batch of an evaluation, which the rank's device computes alone; it is done when `done()` says
/// so.
void wait_for_batch(Communicator& group, const std::function<bool()>& done) {
  group.wait_until(
      done, [] { return std::string("a batch"); }, Awaited::own_device);
  group.report_progress();
}

void compute_batch(Communicator& group, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  wait_for_batch(group, [end] {
    sleep(0.001);
    return std::chrono::steady_clock::now() >= end;
  });
}

std::string message_of_hung_batch(Communicator& group) {
  return message_of<CommunicationTimeout>([&] {
    wait_for_batch(group, [] {
      sleep(0.001);
      return false;
    });
  });
}

TEST(MpiWatch, NamesTheSilentRankAndTheOperation) {
  if (world().size() > 1) {
    auto& group = outliving_operations<MpiCommunicator>(with_timeout);
    auto& values = outliving_operations<std::vector<float>>(1234U);
    const int silent = group.size() - 1;
    if (group.rank() == silent) {
      sleep(2.5 * timeout);
      group.all_reduce(view(values), ReduceOp::sum);  // the others' parts are there already
    } else {
      const std::string message =
          message_of<CommunicationTimeout>([&] { group.all_reduce(view(values), ReduceOp::sum); });
      EXPECT_EQ(message, "waited 2 s in all_reduce (1,234 elements) for rank " +
                             std::to_string(silent) + ", which gives no sign of life");
    }
    world().barrier();
  }
}

TEST(MpiWatch, TellsOfRanksThatWaitForOneAnother) {
  if (world().size() > 1) {
    auto& group = outliving_operations<MpiCommunicator>(with_timeout);
    auto& values = outliving_operations<std::vector<float>>(12U);
    const int next = (group.rank() + 1) % group.size();
    const std::string message =
        message_of<CommunicationTimeout>([&] { group.recv(view(values), next); });
    // It speaks for all. Another that a busy host held up waits longer, for ranks that are gone.
    if (group.rank() == 0) {
      EXPECT_EQ(message,
                "waited 2 s in recv (12 elements) though all ranks give signs of life: they wait "
                "for one another in different operations");
    }
    EXPECT_TRUE(message.starts_with("waited 2 s in recv (12 elements)")) << message;
    world().barrier();
    std::vector<float> late(values.size());
    group.send(view(late), (group.rank() + group.size() - 1) % group.size());
    world().barrier();
  }
}

// Later than the others would wait for it in an operation.
TEST(MpiWatch, MeetsARankThatComesLate) {
  if (world().rank() == world().size() - 1) sleep(1.2 * timeout);
  MpiCommunicator group(with_timeout);
  std::vector<float> values{1.0F};
  for (int i = 0; i < 3; ++i) group.all_reduce(view(values), ReduceOp::max);
  EXPECT_EQ(values[0], 1.0F);
}

/// Of this process so far, in seconds.
double processor_time() {
  rusage use{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &use), 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Whoever looks all the time takes all of it from ranks that compute.
TEST(MpiWatch, LeavesItsCoreToOthersWhereAWaitIsLong) {
  constexpr double late = 6.0;
  if (world().rank() == world().size() - 1) sleep(late);
  const double before = processor_time();
  world().barrier();
  EXPECT_LT(processor_time() - before, 0.75 * late);
}

TEST(MpiWatch, WaitsForRanksThatSayThatTheyWork) {
  MpiCommunicator group(with_timeout);
  std::vector<float> values{1.0F};
  if (group.rank() == 0) run_announced(group, [] { sleep(3.0 * timeout); });
  group.all_reduce(view(values), ReduceOp::sum);
  EXPECT_EQ(values[0], static_cast<float>(group.size()));
  // The same without a thread, as an evaluation does it on a CPU, and on a device.
  const bool works = group.rank() == group.size() - 1;
  for (int i = 0; works && i < 15; ++i) {
    sleep(0.1 * timeout);
    group.still_working();
  }
  group.barrier();
  for (const double seconds : {0.1 * timeout, 0.6 * timeout}) {
    for (double worked = 0.0; works && worked < 1.5 * timeout; worked += seconds) {
      compute_batch(group, seconds);
    }
    group.barrier();
  }
}

TEST(MpiWatch, AnnouncedWorkThrowsWhatItThrew) {
  const std::string message = message_of<InputError>(
      [] { run_announced(world(), [] { input_error("the disk is full"); }); });
  EXPECT_EQ(message, "the disk is full");
}

TEST(MpiWatch, WaitsUntilWhateverItIsAskedForIsDone) {
  for (const double patience : {timeout, 0.0}) {
    MpiCommunicator group({.timeout_seconds = patience});
    int calls = 0;
    group.wait_until([&] { return ++calls == 1000; }, [] { return std::string("counting"); });
    EXPECT_EQ(calls, 1000);
  }
}

TEST(MpiWatch, NamesWhatItWasAskedToWaitFor) {
  if (world().size() > 1) {
    MpiCommunicator group(with_timeout);
    const int silent = group.size() - 1;
    if (group.rank() == silent) {
      sleep(2.5 * timeout);
    } else {
      const std::string message = message_of<CommunicationTimeout>([&] {
        group.wait_until([] { return false; }, [] { return std::string("the end of a step"); });
      });
      EXPECT_EQ(message, "waited 2 s in the end of a step for rank " + std::to_string(silent) +
                             ", which gives no sign of life");
    }
    world().barrier();
  }
}

/// What the last rank says, whose device hangs.
std::string only_last(const Communicator& group) {
  return fmt::format(
      "waited 2 s in a batch for rank {}, which gives signs of life, but whose device does not get "
      "that far",
      group.size() - 1);
}

// Batches that take nearly as long as the patience of the others are no reason to name a rank.
TEST(MpiWatch, NamesTheRankWhoseDeviceHangsWhileTheOthersWorkOn) {
  if (world().size() == 1) return;
  MpiCommunicator group(with_timeout);
  std::vector<float> told{0.0F};
  if (group.rank() == group.size() - 1) {
    EXPECT_EQ(message_of_hung_batch(group), only_last(group));
    world().all_reduce(view(told), ReduceOp::sum);
  } else {
    const auto request = world().all_reduce_async(view(told), ReduceOp::sum);
    int batches = 0;
    while (!request->test() && batches < 8) {
      compute_batch(group, 0.9 * timeout);
      ++batches;
    }
    EXPECT_LT(batches, 8) << "the last rank waits as long as the others work";
    request->wait();
  }
  world().barrier();
}

TEST(MpiWatch, NamesTheRankWhoseDeviceHangsWhileTheOthersWaitForIt) {
  if (world().size() == 1) return;
  MpiCommunicator group(with_timeout);
  if (group.rank() == group.size() - 1) {
    EXPECT_EQ(message_of_hung_batch(group), only_last(group));
  }
  group.barrier();  // the others have not lost patience: it was this rank's to say
  world().barrier();
}

TEST(MpiWatch, AsksOnceMoreBeforeItLosesPatience) {
  MpiCommunicator group(with_timeout);
  const auto begin = std::chrono::steady_clock::now();
  bool stood_still = false;
  // The process stands still behind the question, for less than would start its time anew.
  wait_for_batch(group, [&] {
    if (stood_still) return true;
    sleep(0.001);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (passed.count() < 0.65 * timeout) return false;
    sleep(0.4 * timeout);
    stood_still = true;
    return false;
  });
  world().barrier();
}

// At once, and one after the other from the last rank on, as on a GPU that stalls for all of them.
TEST(MpiWatch, OneSpeaksForAllRanksWhoseDevicesHang) {
  if (world().size() == 1) return;
  for (const double apart : {0.0, 0.15 * timeout}) {
    MpiCommunicator group(with_timeout);
    world().barrier();
    sleep(apart * (group.size() - 1 - group.rank()));
    const auto begin = std::chrono::steady_clock::now();
    const std::string message = message_of_hung_batch(group);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    // The others would speak too where it has not ended the job.
    std::vector<float> speakers{took.count() < 2.0 * timeout ? 1.0F : 0.0F};
    const bool speaks = speakers[0] > 0.0F;
    world().all_reduce(view(speakers), ReduceOp::sum);
    EXPECT_EQ(speakers[0], 1.0F) << "found " << apart << " s apart";
    const std::string own = std::to_string(group.rank());
    const std::size_t named = message.find(" " + own, message.find(" for rank"));
    EXPECT_TRUE(!speaks || named < message.find(", which give")) << message;
    EXPECT_TRUE(!speaks || apart == 0.0 || group.rank() == group.size() - 1) << message;
  }
  world().barrier();
}

using Count = std::function<std::uint32_t()>;

Count always(std::uint32_t count) {
  return [count] { return count; };
}

/// Of all ranks that wait until they lose patience, the last of which counts `last` operations, the
/// others `begun`.
std::vector<int> behind_of(const Count& begun, const Count& last) {
  MpiCommunicator group(with_timeout);
  group.count_operations(group.rank() == group.size() - 1 ? last : begun);
  try {
    group.wait_until([] { return false; }, [] { return std::string("the end of a step"); });
  } catch (const CommunicationTimeout& error) {
    EXPECT_TRUE(error.ranks().empty());
    world().barrier();
    return error.behind();
  }
  throw Error("no time-out");
}

TEST(MpiWatch, KnowsWhoseDevicesHaveBegunTheFewestOperations) {
  if (world().size() == 1) return;
  const int last = world().size() - 1;
  std::vector<int> all_but_last(static_cast<std::size_t>(last));
  std::iota(all_but_last.begin(), all_but_last.end(), 0);
  EXPECT_EQ(behind_of(always(8), always(12)), all_but_last);
  if (world().size() > 2) return;  // each takes three time-outs, and is the same with more ranks
  EXPECT_EQ(behind_of(always(0), always(0xFFFF'FFFF)), std::vector{last}) << "counts wrap around";
  EXPECT_EQ(behind_of(always(8), always(8)), std::vector<int>{});
  EXPECT_EQ(behind_of(always(8), {}), std::vector<int>{}) << "one does not tell";
  const Count growing = [count = std::uint32_t{0}]() mutable { return count++; };
  EXPECT_EQ(behind_of(always(8), growing), std::vector<int>{}) << "one still gets on";
}

TEST(MpiWatch, NamesTheLabelOfAnOperation) {
  if (world().size() > 1) {
    auto& group = outliving_operations<MpiCommunicator>(with_timeout);
    auto& values = outliving_operations<std::vector<float>>(1234U);
    const auto reduce = [&] {
      group.all_reduce_async(view(values), ReduceOp::sum, "gradient bucket 1 of 3")->wait();
    };
    if (group.rank() == 0) {
      sleep(2.5 * timeout);
      reduce();
    } else {
      EXPECT_EQ(message_of<CommunicationTimeout>(reduce),
                "waited 2 s in all_reduce_async of gradient bucket 1 of 3 (1,234 elements) for "
                "rank 0, which gives no sign of life");
    }
    world().barrier();
  }
}

TEST(MpiWatch, WaitsOnWhileTheProcessesThatItWatchesLive) {
  for (const double patience : {timeout, 0.0}) {
    MpiCommunicator group({.timeout_seconds = patience});
    group.watch_processes();
    group.watch_processes();  // of which once is enough
    if (group.rank() == 0) sleep(0.3);
    group.barrier();
    group.still_working();
  }
}

TEST(MpiWatch, WithoutATimeOutWaitsOn) {
  MpiCommunicator group({.timeout_seconds = 0.0});
  if (group.rank() == 0) sleep(0.3);
  group.barrier();
}

}  // namespace
}  // namespace tandem
