#include "parallel/mpi_watch.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "base/text.h"
#include "parallel/communicator.h"
#include "parallel/gather_text.h"
#include "parallel/mpi_error.h"

namespace tandem {

MpiWatch::MpiWatch(double timeout_seconds) : timeout_(timeout_seconds), last_sign_(Clock::now()) {
  TANDEM_CHECK(timeout_seconds >= 0.0, "a time-out of {} seconds", timeout_seconds);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  int size = 0;
  check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  heard_.assign(static_cast<std::size_t>(size), last_sign_);
  sends_.assign(static_cast<std::size_t>(size), MPI_REQUEST_NULL);
}

void MpiWatch::free() {
  receive();
  check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
}

void MpiWatch::wait(std::span<MPI_Request> requests, std::string_view operation,
                    std::int64_t elements, std::string_view label, MPI_Status* statuses) {
  if (timeout_ == Seconds::zero() && !processes_) {
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses),
              "MPI_Waitall");
    return;
  }
  const auto test = [&] {
    int done = 0;
    int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, statuses);
    if (code == MPI_ERR_IN_STATUS && statuses != MPI_STATUSES_IGNORE) {
      for (const MPI_Status& status : std::span(statuses, requests.size())) {
        if (status.MPI_ERROR == MPI_SUCCESS || status.MPI_ERROR == MPI_ERR_PENDING) continue;
        code = status.MPI_ERROR;
        break;
      }
    }
    check_mpi(code, "MPI_Testall");
    return done != 0;
  };
  poll(test, [&] {
    return fmt::format("{}{}{} ({} elements)", operation, label.empty() ? "" : " of ", label,
                       format_count(elements));
  });
}

void MpiWatch::wait_until(const std::function<bool()>& done,
                          const std::function<std::string()>& what) {
  poll(done, what);
}

template <typename Done, typename What>
bool MpiWatch::ask(const Done& done, const What& what) const {
  if (!processes_) return done();
  try {
    return done();
  } catch (const Error&) {
    processes_->require_alive(what);
    throw;
  }
}

template <typename Done, typename What>
void MpiWatch::poll(const Done& done, const What& what) {
  const Seconds poll_interval = std::min(Seconds(0.1), timeout_ / 16);
  Clock::time_point start = Clock::now();
  Clock::time_point polled = start;
  while (!ask(done, what)) {
    const Clock::time_point now = Clock::now();
    if (processes_) processes_->check(now, std::cref(what));
    if (timeout_ == Seconds::zero() || now - polled < poll_interval) continue;
    // It is this process that stood still: the others had no chance to be heard.
    if (now - polled > timeout_ / 2) start = now;
    polled = now;
    if (receive()) start = now;
    if (now - start > timeout_) fail(what());
    if (now - start > timeout_ / 4 && now - last_sign_ > timeout_ / 4) send(waiting);
  }
  last_sign_ = Clock::now();
}

void MpiWatch::still_working() {
  const Clock::time_point now = Clock::now();
  if (processes_) processes_->check(now, {});
  if (timeout_ == Seconds::zero() || now - last_sign_ < timeout_ / 4) return;
  receive();  // a rank that never waits long has the others' signs pile up
  send(working);
}

void MpiWatch::send(Sign sign) {
  last_sign_ = Clock::now();
  for (int to = 0; to < static_cast<int>(sends_.size()); ++to) {
    MPI_Request& last = sends_[static_cast<std::size_t>(to)];
    int done = 0;
    check_mpi(MPI_Test(&last, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (to == rank_ || done == 0) continue;
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, to, sign, comm_, &last), "MPI_Isend");
  }
}

bool MpiWatch::receive() {
  bool work = false;
  for (;;) {
    int there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
    if (there == 0) return work;
    check_mpi(
        MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
        "MPI_Recv");
    heard_[static_cast<std::size_t>(status.MPI_SOURCE)] = Clock::now();
    work |= status.MPI_TAG == working;
  }
}

std::vector<int> MpiWatch::silent_ranks() const {
  // Who waits as this rank does has sent signs since, four in this time.
  const Clock::time_point now = Clock::now();
  std::vector<int> silent;
  for (int rank = 0; rank < static_cast<int>(heard_.size()); ++rank) {
    const bool quiet = now - heard_[static_cast<std::size_t>(rank)] > timeout_ * 0.75;
    if (rank != rank_ && quiet) silent.push_back(rank);
  }
  return silent;
}

void MpiWatch::fail(std::string_view operation) const {
  const std::vector<int> silent = silent_ranks();
  int speaker = 0;
  while (std::ranges::count(silent, speaker) > 0) ++speaker;
  // All find it at about the same time. One of them says so and ends the job; the others do only
  // where it does not come to that.
  constexpr Seconds patience(12.0);  // a launcher may take seconds to end a job
  if (rank_ != speaker) std::this_thread::sleep_for(std::min(patience, 2.0 * timeout_));
  const std::string what = fmt::format("waited {:g} s in {}", timeout_.count(), operation);
  if (silent.empty()) {
    throw CommunicationTimeout(what +
                               " though all ranks give signs of life: they wait for one "
                               "another in different operations");
  }
  throw CommunicationTimeout(fmt::format("{} for {}, which {} no sign of life", what,
                                         ranks_text(silent), silent.size() == 1 ? "gives" : "give"),
                             silent);
}

}  // namespace tandem
