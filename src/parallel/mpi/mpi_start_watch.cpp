#include "parallel/mpi/mpi_start_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/process_report.h"
#include "base/process_table.h"
#include "base/standstill.h"
#include "base/text.h"
#include "parallel/gather_text.h"
#include "parallel/host_claim.h"

namespace tandem {
namespace {

constexpr const char* seconds_variable = "TANDEM_START_SECONDS";

/// By the thread of that name others see that a rank has come to MPI_Init.
constexpr const char* thread_name = "tandem-start";

}  // namespace

double mpi_start_seconds(const ReadEnvironment& environment) {
  const char* const text = environment(seconds_variable);
  if (text == nullptr || *text == '\0') return usual_start_seconds;
  const auto value = parse_number<double>(text);
  if (value && std::isfinite(*value) && *value >= 0.0) return *value;
  input_error("{}='{}' is not a number of seconds; 0 waits for ever, {:g} is the default",
              seconds_variable, text, usual_start_seconds);
}

namespace {

double patience_of(double seconds) {
  return seconds == 0.0 ? std::numeric_limits<double>::infinity() : seconds;
}

}  // namespace

double start_patience() {
  return patience_of(mpi_start_seconds([](const char* name) { return std::getenv(name); }));
}

double meeting_patience(double seconds, const ReadEnvironment& environment) {
  const double start = patience_of(mpi_start_seconds(environment));
  return start > usual_start_seconds ? std::max(seconds, start) : seconds;
}

std::string start_timeout_text(const RanksOnHost& ranks, int size, const std::string& host,
                               double seconds) {
  std::string whom = whom_text(ranks, host);
  if (whom.empty() && ranks.waiting.empty()) whom = "the other ranks";
  const int missing = size - static_cast<int>(ranks.waiting.size());
  if (whom.empty() && size > 0 && missing == 0) {
    whom = fmt::format("MPI itself: all {} ranks are on {} and came", size, host);
  }
  if (whom.empty()) {
    const std::string others = size > 0 ? fmt::format("{} of {} ranks", missing, size) : "others";
    whom = fmt::format("{}: {} on {} came, of more this host shows nothing", others,
                       ranks_text(ranks.waiting), host);
  }
  return fmt::format(
      "waited {:g} s in MPI_Init for {}; look at the hosts, or set {} to more than that", seconds,
      whom, seconds_variable);
}

MpiStartWatch::MpiStartWatch(double seconds, LaunchedJob job)
    : longest_(seconds), job_(std::move(job)) {
  // MPI_Init changes the environment while the thread looks.
  name_ = pmix_job();
  claims_ = host_claims();
  const BlockedSignals blocked;
  thread_ = std::jthread([this](const std::stop_token& started) { look(started); });
}

MpiStartWatch::~MpiStartWatch() = default;

bool MpiStartWatch::claims_speech() const {
  const bool first = job_.rank == 0;
  return name_.empty() ? first : claims_on_host(name_, "start", first);
}

bool MpiStartWatch::rest(const std::stop_token& started, Seconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, started, time, [] { return false; });
  return started.stop_requested();
}

bool MpiStartWatch::starts_in_time(const std::stop_token& started) {
  constexpr Seconds interval(0.1);
  Standstill standstill(Standstill::Clock::now());
  const auto is_over = [&] {
    const auto stood = standstill.look(!has_stopped_ancestor(), Standstill::Clock::now());
    return longest_ > Seconds::zero() && stood >= longest_;
  };
  while (!is_over()) {
    if (rest(started, interval)) return true;
  }
  return false;
}

void MpiStartWatch::look(const std::stop_token& started) {
  static_cast<void>(::pthread_setname_np(::pthread_self(), thread_name));
  // Those who see whom they wait for speak before others do. On a host the first speaks, after all
  // have found out that they are not; its end is theirs, but for a launcher that does not end them.
  // Together they end the last rank within 30 s by default.
  constexpr Seconds those_who_see(2.0);
  constexpr Seconds first(0.5);
  constexpr Seconds others(3.0);
  constexpr Seconds turn(0.3);  // longer than a launcher takes to end the others
  while (!starts_in_time(started)) {
    const bool sees = ranks_on_host(name_, thread_name).hold_up();
    if (!sees && rest(started, those_who_see)) return;
    const Seconds silence = claims_speech() ? first : others + std::min(job_.rank, 5) * turn;
    if (rest(started, silence)) return;
    const RanksOnHost ranks = ranks_on_host(name_, thread_name);
    if (sees && !ranks.hold_up()) continue;  // they have come meanwhile
    const int size = job_.variable.empty() ? 0 : job_.size;
    const bool is_told = claims_ != nullptr && claims_->is_claimed(HostClaim::told_error);
    if (!is_told) log_error("{}", start_timeout_text(ranks, size, host_name(), longest_.count()));
    ::_exit(ExitCode::failure);
  }
}

}  // namespace tandem
