#include "parallel/mpi/mpi_start_watch.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

double seconds_of(const char* text) {
  return mpi_start_seconds([text](const char*) { return text; });
}

TEST(MpiStartSeconds, AreTheEnvironments) {
  EXPECT_EQ(seconds_of(nullptr), 20.0);
  EXPECT_EQ(seconds_of(""), 20.0);
  EXPECT_EQ(seconds_of("0"), 0.0);
  EXPECT_EQ(seconds_of("1.5"), 1.5);
  for (const char* text : {"x", "-1", "5 s", "inf", "nan"}) {
    const std::string message = message_of<InputError>([text] { seconds_of(text); });
    EXPECT_EQ(message.rfind(std::string("TANDEM_START_SECONDS='") + text + "' is not a number", 0),
              0U)
        << message;
  }
}

// Where less is asked for, what is asked for the meeting itself stays.
TEST(MeetingPatience, IsThatOfASlowStart) {
  const auto patience = [](double seconds, const char* start) {
    return meeting_patience(seconds, [start](const char*) { return start; });
  };
  EXPECT_EQ(patience(2.0, nullptr), 2.0);
  EXPECT_EQ(patience(25.0, "5"), 25.0);
  EXPECT_EQ(patience(25.0, "300"), 300.0);
  EXPECT_EQ(patience(400.0, "300"), 400.0);
  EXPECT_EQ(patience(25.0, "0"), std::numeric_limits<double>::infinity());
}

TEST(StartTimeout, NamesWhomOthersWaitFor) {
  const auto text = [](const RanksOnHost& ranks) {
    const std::string all = start_timeout_text(ranks, 4, "node-a", 25.0);
    EXPECT_TRUE(all.ends_with("; look at the hosts, or set TANDEM_START_SECONDS to more than that"))
        << all;
    return all.substr(0, all.find(';'));
  };
  EXPECT_EQ(text({.waiting = {0, 1, 3}, .stopped = {2}}),
            "waited 25 s in MPI_Init for rank 2 on node-a, which is stopped");
  EXPECT_EQ(text({.waiting = {0}, .stopped = {2}, .coming = {1, 3}}),
            "waited 25 s in MPI_Init for rank 2 on node-a, which is stopped, and for ranks 1 and 3 "
            "on node-a, which have not come to it");
  const std::map<int, std::string> gpus{{0, "GPU-a"}, {1, "GPU-a"}, {2, "GPU-b"}, {3, "GPU-b"}};
  EXPECT_EQ(text({.waiting = {0, 1, 3}, .stopped = {2}, .gpus = gpus}),
            "waited 25 s in MPI_Init for rank 2 on node-a, GPU-b, which is stopped");
  EXPECT_EQ(text({.waiting = {0}, .coming = {1, 2, 3}, .gpus = gpus}),
            "waited 25 s in MPI_Init for rank 1 on node-a, GPU-a, and ranks 2 and 3 on node-a, "
            "GPU-b, which have not come to it");
  EXPECT_EQ(text({.waiting = {0, 1}}),
            "waited 25 s in MPI_Init for 2 of 4 ranks: ranks 0 and 1 on node-a came, of more this "
            "host shows nothing");
  EXPECT_EQ(text({.waiting = {0, 1, 2, 3}}),
            "waited 25 s in MPI_Init for MPI itself: all 4 ranks are on node-a and came");
  EXPECT_EQ(text({}), "waited 25 s in MPI_Init for the other ranks");
  const std::string of_unknown_size = start_timeout_text({.waiting = {1}}, 0, "node-a", 25.0);
  EXPECT_TRUE(
      of_unknown_size.starts_with("waited 25 s in MPI_Init for others: rank 1 on node-a came, of "
                                  "more this host shows nothing; "))
      << of_unknown_size;
}

}  // namespace
}  // namespace tandem
