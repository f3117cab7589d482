#include <chrono>
#include <stdexcept>
#include <thread>

#include "parallel/device_choice.h"
#include "parallel/device_test.h"
#include "parallel/mpi_communicator.h"
#include "parallel/nccl_communicator.h"
#include "parallel/stream_watch.h"

// What is NCCL's alone.

namespace tandem {
namespace {

TEST(NcclCommunicator, IsADeviceKind) {
  EXPECT_EQ(gpus().name(), "nccl");
  EXPECT_FALSE(gpus().is_host());
  EXPECT_EQ(gpus().rank(), hosts().rank());
  EXPECT_EQ(gpus().size(), hosts().size());
}

TEST(NcclCommunicator, TakesABudgetOfBlocks) {
  NcclCommunicator link(hosts(), gpu(), {.max_ctas = 2, .cga_cluster_size = 0});
  const OnGpu<float> values(contributions<float>(gpus().rank(), 100'003));
  link.all_reduce(values.tensor(DType::f32), ReduceOp::sum);
  wait_for_device(link, gpu(), "a sum");
  EXPECT_EQ(values.get(), sums<float>(100'003));
}

TEST(NcclCommunicator, NamesTheSilentRankAndTheBucket) {
  if (gpus().size() == 1) return;
  constexpr double timeout = 2.0;
  const int silent = gpus().size() - 1;
  MpiCommunicator group({.timeout_seconds = timeout});
  const OnGpu<float> values(contributions<float>(gpus().rank(), 1234));
  const auto reduce = [&](Communicator& link, const char* label) {
    link.all_reduce_async(values.tensor(DType::f32), ReduceOp::sum, label)->wait();
  };
  try {
    NcclCommunicator link(group, gpu());
    reduce(link, "gradient bucket 1 of 2");
    wait_for_device(link, gpu(), "a step");
    if (link.rank() == silent) {
      std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * timeout));
    } else {
      reduce(link, "gradient bucket 2 of 2");
      EXPECT_EQ(message_of<CommunicationTimeout>([&] { wait_for_device(link, gpu(), "a step"); }),
                "waited 2 s in a step, last in all_reduce of gradient bucket 2 of 2 (1,234 "
                "elements), for rank " +
                    std::to_string(silent) + ", which gives no sign of life");
      // What hung has ended, so that memory can be freed.
      wait_for_device(hosts(), gpu(), "what was given up");
      EXPECT_NE(message_of<Error>([&] { link.barrier(); }).find("given up"), std::string::npos);
    }
    throw std::runtime_error("the others are gone");  // as an error would unwind it
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the others are gone");
  }
  hosts().barrier();
}

TEST(NcclCommunicator, RefusesRanksThatShareAGpu) {
  const std::string message = message_of<InputError>([] {
    check_one_rank_per_device(
        RankTopology({{"a", "a", gpu().device().uuid}, {"a", "a", gpu().device().uuid}}, 0));
  });
  EXPECT_EQ(message, "ranks 0 and 1 share " + gpu().device().uuid +
                         "; start one rank per GPU (mpirun -n 1)");
}

}  // namespace
}  // namespace tandem
