#include "parallel/mpi/mpi_start_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
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

/// Reads the environment that another process was started with.
class OthersEnvironment {
 public:
  explicit OthersEnvironment(pid_t process) : words_(environment_of(process)) {}

  const char* operator()(std::string_view name) const {
    for (const std::string& word : words_) {
      if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') {
        return word.c_str() + name.size() + 1;
      }
    }
    return nullptr;
  }

 private:
  std::vector<std::string> words_;
};

/// What PMIx, which Open MPI and Slurm use, tells every process of a job in its environment.
constexpr const char* job_variable = "PMIX_NAMESPACE";
constexpr const char* rank_variable = "PMIX_RANK";

std::optional<int> rank_in(const OthersEnvironment& environment, const std::string& job) {
  const char* const its = environment(job_variable);
  if (its == nullptr || its != job) return std::nullopt;
  return environment_number(environment, rank_variable);
}

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

std::string start_timeout_text(const StartingRanks& ranks, int size, const std::string& host,
                               double seconds) {
  std::vector<std::string> whom;
  const auto add = [&](const std::vector<int>& some, const char* one, const char* several) {
    if (some.empty()) return;
    whom.push_back(fmt::format("{} on {}, which {}", ranks_text(some), host,
                               some.size() == 1 ? one : several));
  };
  add(ranks.stopped, "is stopped", "are stopped");
  add(ranks.coming, "has not come to it", "have not come to it");
  if (whom.empty() && ranks.waiting.empty()) whom.emplace_back("the other ranks");
  const int missing = size - static_cast<int>(ranks.waiting.size());
  if (whom.empty() && size > 0 && missing == 0) {
    whom.push_back(fmt::format("MPI itself: all {} ranks are on {} and came", size, host));
  }
  if (whom.empty()) {
    const std::string others = size > 0 ? fmt::format("{} of {} ranks", missing, size) : "others";
    whom.push_back(fmt::format("{}: {} on {} came, of more this host shows nothing", others,
                               ranks_text(ranks.waiting), host));
  }
  return fmt::format(
      "waited {:g} s in MPI_Init for {}; look at the hosts, or set {} to more than that", seconds,
      join(whom, ", and for "), seconds_variable);
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

StartingRanks MpiStartWatch::ranks_of_this_host() const {
  if (name_.empty()) return {};
  struct Rank {
    bool has_come = false;
    bool stopped = false;
  };
  std::map<int, Rank> ranks;
  for (const pid_t process : all_processes()) {
    const std::optional<int> number = rank_in(OthersEnvironment(process), name_);
    if (!number || !is_on_this_host(process)) continue;
    // What starts and watches a rank carries its number, and what it has started itself: where one
    // of them has come it is the rank.
    Rank& rank = ranks[*number];
    if (has_thread(process, thread_name)) {
      rank = {.has_come = true, .stopped = is_stopped(process)};
    } else if (!rank.has_come) {
      rank.stopped |= is_stopped(process);
    }
  }
  StartingRanks found;
  for (const auto& [number, rank] : ranks) {
    (rank.stopped ? found.stopped : rank.has_come ? found.waiting : found.coming).push_back(number);
  }
  return found;
}

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
    const bool sees = ranks_of_this_host().hold_up();
    if (!sees && rest(started, those_who_see)) return;
    const Seconds silence = claims_speech() ? first : others + std::min(job_.rank, 5) * turn;
    if (rest(started, silence)) return;
    const StartingRanks ranks = ranks_of_this_host();
    if (sees && !ranks.hold_up()) continue;  // they have come meanwhile
    const int size = job_.variable.empty() ? 0 : job_.size;
    const bool is_told = claims_ != nullptr && claims_->is_claimed(HostClaim::told_error);
    if (!is_told) log_error("{}", start_timeout_text(ranks, size, host_name(), longest_.count()));
    ::_exit(ExitCode::failure);
  }
}

}  // namespace tandem
