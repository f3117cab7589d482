#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "parallel/device_test.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/stream_watch.h"
#include "parallel/test_patience.h"

namespace tandem {

/// The ranks' devices sum gradients over what `make_link` makes over a group of hosts with a short
/// time-out, by `sum`, which is given that and the sum's label; then the last rank is silent.
/// Expects that the others are told so, with `size` behind the label, and can do no more over that
/// link.
inline void expect_silent_rank_is_named(
    const std::function<std::unique_ptr<Communicator>(Communicator& group)>& make_link,
    const std::function<void(Communicator& link, const char* label)>& sum,
    const std::string& size) {
  using Clock = std::chrono::steady_clock;
  const double timeout = patient(2.0);
  const int silent = gpus().size() - 1;
  MpiCommunicator group({.timeout_seconds = timeout});
  const Clock::time_point start = Clock::now();
  try {
    const std::unique_ptr<Communicator> link = make_link(group);
    const auto wait = [&] { wait_for_device(*link, gpu(), "a step"); };
    sum(*link, "gradient bucket 1 of 2");
    wait();
    if (link->rank() == silent) {
      std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * timeout));
    } else {
      sum(*link, "gradient bucket 2 of 2");
      EXPECT_EQ(message_of<CommunicationTimeout>(wait),
                fmt::format("waited {:g} s in a step, last in all_reduce of gradient bucket 2 of 2 "
                            "{} for rank {}, which gives no sign of life",
                            timeout, size, silent));
      // What hung has ended, so that memory can be freed.
      wait_for_device(hosts(), gpu(), "what was given up");
      EXPECT_NE(message_of<Error>([&] { link->barrier(); }).find("given up"), std::string::npos);
    }
    throw std::runtime_error("the others are gone");  // as an error would unwind it
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the others are gone");
  }
  EXPECT_LT(Clock::now() - start, std::chrono::duration<double>(10.0 * timeout));
  hosts().barrier();
}

}  // namespace tandem
