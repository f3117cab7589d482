#include "parallel/mpi/mpi_watch.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "base/heartbeat.h"
#include "base/idle_wait.h"
#include "base/process_report.h"
#include "base/text.h"
#include "device/device_error.h"
#include "parallel/device_timeout.h"
#include "parallel/gather_text.h"
#include "parallel/mpi/mpi_error.h"

namespace tandem {

MpiWatch::MpiWatch(double timeout_seconds, double meeting_seconds)
    : timeout_(timeout_seconds), patience_(timeout_), last_sign_(Clock::now()) {
  TANDEM_CHECK(timeout_seconds >= 0.0, "a time-out of {} seconds", timeout_seconds);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  heard_.assign(static_cast<std::size_t>(size), last_sign_);
  sends_.assign(heard_.size(), MPI_REQUEST_NULL);
  told_.assign(heard_.size(), 0);
  begun_there_.assign(heard_.size(), std::nullopt);
  hung_.assign(heard_.size(), std::nullopt);
  meet(std::max(timeout_, Seconds(meeting_seconds)));
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  heard_.assign(heard_.size(), last_sign_);
}

MpiWatch::~MpiWatch() {
  // Signs may still be under way, and MPI reads them from there.
  static std::vector<std::vector<std::uint32_t>> kept;
  kept.push_back(std::move(told_));
}

// Not MPI_Comm_dup(), which waits for ever: for a rank that hangs, and for one whose MPI had no
// memory to share with the others and went on without, while they wait for it there.
void MpiWatch::meet(Seconds patience) {
  comm_ = MPI_COMM_WORLD;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm_, &own, &request), "MPI_Comm_idup");
  IdleWait idle(IdleWait::attentive_to_messages);
  const auto test = [&] {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) idle.pause();
    return done != 0;
  };
  const auto what = [] { return std::string("the first meeting of all ranks"); };
  poll(test, what, patience);
  comm_ = own;
}

void MpiWatch::count_operations(std::function<std::uint32_t()> begun) {
  begun_ = std::move(begun);
  begun_there_.assign(begun_there_.size(), std::nullopt);  // of what was counted before
}

void MpiWatch::free() {
  receive();
  check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
  comm_ = MPI_COMM_WORLD;  // where signs came after this rank had met the others
  receive();
}

void MpiWatch::wait(std::span<MPI_Request> requests, std::string_view operation,
                    std::int64_t elements, std::string_view label, MPI_Status* statuses) {
  if (timeout_ == Seconds::zero() && !processes_) {
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses),
              "MPI_Waitall");
    return;
  }
  IdleWait idle(IdleWait::attentive_to_messages);
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
    if (done == 0) idle.pause();
    return done != 0;
  };
  const auto what = [&] {
    return fmt::format("{}{}{} ({} elements)", operation, label.empty() ? "" : " of ", label,
                       format_count(elements));
  };
  poll(test, what, timeout_);
}

void MpiWatch::wait_until(const std::function<bool()>& done,
                          const std::function<std::string()>& what, Awaited awaited) {
  const bool alone = heard_.size() == 1;
  const Clock::time_point start = Clock::now();
  poll(done, what, alone ? patience_.limit() : timeout_, awaited);
  if (alone) patience_.waited(Clock::now() - start);
}

template <typename Done, typename What>
bool MpiWatch::ask(const Done& done, const What& what) const {
  const auto look_for_ends = [&](Seconds patience) {
    own_report().set_wait(what());  // for who tells of the rank that it waited for
    if (processes_) processes_->require_alive(what, patience);
  };
  try {
    return done();
  } catch (const DeviceError&) {
    look_for_ends(killed_rank_patience(timeout_.count()));
    throw;
  } catch (const Error&) {
    look_for_ends({});
    throw;
  }
}

template <typename Done, typename What>
void MpiWatch::poll(const Done& done, const What& what, Seconds limit, Awaited awaited) {
  const bool of_ranks = awaited == Awaited::ranks;
  const Seconds poll_interval = std::min(Seconds(0.1), timeout_ / 16);
  Clock::time_point start = Clock::now();
  Clock::time_point polled = start;
  bool reported = false;
  while (!ask(done, what)) {
    const Clock::time_point now = Clock::now();
    heartbeat();
    if (processes_) processes_->check(now, std::cref(what));
    if (timeout_ == Seconds::zero() || now - polled < poll_interval) continue;
    // It is this process that stood still: the others had no chance to be heard.
    if (now - polled > timeout_ / 2) start = now;
    polled = now;
    own_report().set_wait(what());
    reported = true;
    // Whatever the others are at, it is not what this rank's own device lacks.
    if (receive() && of_ranks) start = now;
    if (now - start > limit) {
      if (ask(done, what)) break;  // this process may have stood still since
      if (of_ranks) fail(what(), limit);
      fail_by_own_device(what(), limit);
    }
    if (now - start > timeout_ / 4 && now - last_sign_ > timeout_ / 4) {
      send(of_ranks ? waiting : working);
    }
  }
  if (reported) own_report().set_wait({});
  if (of_ranks) last_sign_ = Clock::now();
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
  const int bytes = begun_ ? static_cast<int>(sizeof(std::uint32_t)) : 0;
  told_of_ = begun_ ? begun_() : 0;
  for (int to = 0; to < static_cast<int>(sends_.size()); ++to) {
    MPI_Request& last = sends_[static_cast<std::size_t>(to)];
    int done = 0;
    check_mpi(MPI_Test(&last, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (to == rank_ || done == 0) continue;
    std::uint32_t& told = told_[static_cast<std::size_t>(to)];
    told = told_of_;
    check_mpi(MPI_Isend(&told, bytes, MPI_BYTE, to, sign, comm_, &last), "MPI_Isend");
  }
}

bool MpiWatch::receive() {
  bool work = false;
  for (const Sign sign : {waiting, working, hung, hung_too}) {
    for (;;) {
      int there = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, sign, comm_, &there, &status), "MPI_Iprobe");
      if (there == 0) break;
      std::uint32_t begun = 0;
      check_mpi(MPI_Recv(&begun, sizeof(begun), MPI_BYTE, status.MPI_SOURCE, sign, comm_, &status),
                "MPI_Recv");
      int bytes = 0;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      const auto from = static_cast<std::size_t>(status.MPI_SOURCE);
      std::optional<Begun>& last = begun_there_[from];
      const bool again = last && last->count == begun;
      last = bytes == 0 ? std::nullopt : std::optional(Begun{begun, again});
      heard_[from] = Clock::now();
      if (sign == hung || sign == hung_too) hung_[from] = sign;
      work |= sign != waiting;  // and who says that a device hangs is about to speak
    }
  }
  return work;
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

std::vector<int> MpiWatch::ranks_behind() const {
  if (!begun_) return {};
  const std::uint32_t own = begun_();
  if (own != told_of_) return {};
  std::vector<std::int32_t> ahead(begun_there_.size(), 0);  // of this one
  for (std::size_t rank = 0; rank < ahead.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    const std::optional<Begun>& there = begun_there_[rank];
    if (!there || !there->again) return {};
    ahead[rank] = static_cast<std::int32_t>(there->count - own);
  }
  const auto [least, most] = std::ranges::minmax(ahead);
  std::vector<int> behind;
  for (std::size_t rank = 0; rank < ahead.size(); ++rank) {
    if (ahead[rank] == least && least < most) behind.push_back(static_cast<int>(rank));
  }
  return behind;
}

void MpiWatch::leave_speech_to(int speaker) const {
  // All find it at about the same time. One of them says so and ends the job.
  // Longer than a launcher mostly takes to end a job, which is up to six seconds; but by default
  // all are gone within thirty.
  constexpr Seconds patience(7.0);
  if (rank_ != speaker) std::this_thread::sleep_for(std::min(patience, 2.0 * timeout_));
}

void MpiWatch::fail(std::string_view operation, Seconds waited) const {
  const std::vector<int> silent = silent_ranks();
  int speaker = 0;
  while (std::ranges::count(silent, speaker) > 0) ++speaker;
  leave_speech_to(speaker);
  const std::string what = fmt::format("waited {:g} s in {}", waited.count(), operation);
  if (silent.empty()) {
    const bool met = comm_ != MPI_COMM_WORLD;
    throw CommunicationTimeout(
        what,
        fmt::format("though all ranks give signs of life: {}",
                    met ? "they wait for one another in different operations"
                        : "the MPI of one does not reach the others in every way, as where "
                          "it has no memory to share with those of its host"),
        {}, ranks_behind());
  }
  throw CommunicationTimeout(what,
                             fmt::format("for {}, which {} no sign of life", ranks_text(silent),
                                         silent.size() == 1 ? "gives" : "give"),
                             silent);
}

// Where a GPU that ranks share stalls they all find it, one after the other. Whoever has heard of
// another one leaves it to that one. Those that found it before they could hear of one another do
// hear within a moment, for signs arrive at once and are looked for ten times a second: the lowest.
void MpiWatch::fail_by_own_device(std::string_view operation, Seconds waited) {
  receive();
  const bool first = std::ranges::count(hung_, hung) == 0;
  hung_[static_cast<std::size_t>(rank_)] = first ? hung : hung_too;
  send(first ? hung : hung_too);
  if (heard_.size() > 1) {
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::min(Seconds(0.5), timeout_ / 8));
    while (Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      receive();
    }
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(hung_.size()); ++rank) {
    if (hung_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  leave_speech_to(static_cast<int>(std::ranges::find(hung_, hung) - hung_.begin()));
  throw late_devices(fmt::format("waited {:g} s in {}", waited.count(), operation), ranks);
}

}  // namespace tandem
