#include "parallel/mpi_start_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/process_table.h"
#include "base/standstill.h"
#include "base/text.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

constexpr const char* seconds_variable = "TANDEM_START_SECONDS";

/// By the thread of that name others see that a rank has come to MPI_Init.
constexpr const char* thread_name = "tandem-start";

std::string host_name() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));  // for the message alone
  return name.data();
}

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

/// The job that this process belongs to, as PMIx, which Open MPI and Slurm use, names it to all;
/// null where the launcher uses another.
constexpr const char* job_variable = "PMIX_NAMESPACE";
const char* job_name() { return std::getenv(job_variable); }

StartingRanks ranks_of_this_host() {
  const char* const job = job_name();
  if (job == nullptr) return {};
  struct Rank {
    bool has_come = false;
    bool stopped = false;
  };
  std::map<int, Rank> ranks;
  for (const pid_t process : all_processes()) {
    const OthersEnvironment environment(process);
    const char* const its = environment(job_variable);
    if (its == nullptr || std::string_view(its) != job || environment("PMIX_RANK") == nullptr) {
      continue;
    }
    // A process that watches a rank, or was started by one, carries the same number.
    Rank& rank = ranks[read_launched_job(environment).rank];
    rank.has_come |= has_thread(process, thread_name);
    rank.stopped |= is_stopped(process);
  }
  StartingRanks found;
  for (const auto& [number, rank] : ranks) {
    (rank.stopped ? found.stopped : rank.has_come ? found.waiting : found.coming).push_back(number);
  }
  return found;
}

/// Whether this process is the one on its host that speaks for the job: it has bound an address
/// which lives, as a name alone, no longer than the process.
bool claims_speech() {
  const char* const job = job_name();
  if (job == nullptr) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The first byte of an abstract name is 0.
  const std::string name = fmt::format("tandem-start-{}", job);
  const std::size_t length = name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return true;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return true;
  const bool taken = errno == EADDRINUSE;
  ::close(descriptor);
  return !taken;
}

}  // namespace

double mpi_start_seconds(const ReadEnvironment& environment) {
  constexpr double usual = 25.0;
  const char* const text = environment(seconds_variable);
  if (text == nullptr || *text == '\0') return usual;
  const auto value = parse_number<double>(text);
  if (value && std::isfinite(*value) && *value >= 0.0) return *value;
  input_error("{}='{}' is not a number of seconds; 0 waits for ever, {:g} is the default",
              seconds_variable, text, usual);
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
  if (whom.empty() && std::cmp_less(ranks.waiting.size(), size)) {
    whom.push_back(
        fmt::format("ranks of other hosts: {} on {} came", ranks_text(ranks.waiting), host));
  }
  if (whom.empty()) whom.push_back(fmt::format("MPI itself: all ranks on {} came", host));
  return fmt::format(
      "waited {:g} s in MPI_Init for {}; look at the hosts, or set {} to more than that", seconds,
      join(whom, ", and for "), seconds_variable);
}

MpiStartWatch::MpiStartWatch(double seconds, LaunchedJob job)
    : longest_(seconds), job_(std::move(job)) {
  if (seconds == 0.0) return;
  const BlockedSignals blocked;
  thread_ = std::jthread([this](const std::stop_token& started) { look(started); });
}

MpiStartWatch::~MpiStartWatch() = default;

bool MpiStartWatch::rest(const std::stop_token& started, Seconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, started, time, [] { return false; });
  return started.stop_requested();
}

void MpiStartWatch::look(const std::stop_token& started) {
  static_cast<void>(::pthread_setname_np(::pthread_self(), thread_name));
  constexpr Seconds interval(0.1);
  Standstill standstill(Standstill::Clock::now());
  while (standstill.look(!has_stopped_ancestor(), Standstill::Clock::now()) < longest_) {
    if (rest(started, interval)) return;
  }
  const StartingRanks ranks = ranks_of_this_host();
  // Those who see whom they wait for speak before others do. On a host the first speaks, after all
  // have found out that they are not; its end is theirs, but for a launcher that does not end them.
  constexpr Seconds those_who_see(2.0);
  constexpr Seconds first(0.5);
  constexpr Seconds others(3.0);
  if (!ranks.hold_up() && rest(started, those_who_see)) return;
  if (rest(started, claims_speech() ? first : others)) return;
  log_error("{}", start_timeout_text(ranks, job_.size, host_name(), longest_.count()));
  ::_exit(ExitCode::failure);
}

}  // namespace tandem
