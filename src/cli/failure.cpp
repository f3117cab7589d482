#include "cli/failure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/file_work.h"
#include "base/host_claims.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/process_place.h"
#include "base/process_report.h"
#include "base/text.h"
#include "data/data_timeout.h"
#include "device/device_error.h"
#include "parallel/communicator.h"
#include "parallel/host_claim.h"
#include "parallel/host_processes.h"

namespace tandem {
namespace {

using Seconds = std::chrono::duration<double>;

/// Who tells an error.
enum class Teller {
  each_in_turn,  ///< mostly a lower rank has met the same one, and its one line is enough
  this_rank,     ///< the ranks have settled it
};

struct Failure {
  std::string line;
  int code = ExitCode::failure;
  Teller teller = Teller::each_in_turn;
  /// What has happened to another rank, that tells it better.
  bool comes_of_another = false;
  /// A rank has ended: the launcher is about to end the job, with fewer words of its own than about
  /// a rank that aborts.
  bool launcher_ends_job = false;
  /// A device's fault, which may come of a rank that a signal is ending.
  bool may_follow_killed_rank = false;
};

/// Of the exception that is being handled.
Failure current_failure() {
  try {
    throw;
  } catch (const RankEnded& error) {
    return {.line = error.what(), .teller = Teller::this_rank, .launcher_ends_job = true};
  } catch (const CommunicationTimeout& error) {
    return {.line = error.what(), .teller = Teller::this_rank};
  } catch (const DataTimeout& error) {
    return {.line = error.what(), .teller = Teller::this_rank};
  } catch (const FileTimeout& error) {
    return {.line = error.what(), .teller = Teller::this_rank};
  } catch (const PeerError& error) {
    return {.line = error.what(), .comes_of_another = true};
  } catch (const DeviceError& error) {
    return {.line = error.what(), .may_follow_killed_rank = true};
  } catch (const InputError& error) {
    return {.line = error.what(), .code = ExitCode::bad_input};
  } catch (const std::filesystem::filesystem_error& error) {
    return {.line = fmt::format("{}: {}", error.path1().string(), error.code().message()),
            .code = is_shortage(error.code()) ? ExitCode::failure : ExitCode::bad_input};
  } catch (const std::bad_alloc&) {
    return {.line = "out of memory; use a smaller batch, model or data set"};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return {.line = error.what()};
    return {.line =
                "no thread can be started: there is no memory for its stack, or no process more is "
                "allowed (ulimit -u, a container's limit)"};
  } catch (const std::exception& error) {
    return {.line = error.what()};
  }
}

/// Ranks from here on wait no longer than this one before they say what went wrong.
constexpr int turns = 30;

/// How long a rank other than 0 waits before it says what went wrong, each a little longer than the
/// one before. Never so long that the ranks which wait for this one would take it for hung and say
/// so first.
Seconds silence_before_error(int rank, double timeout_seconds) {
  const double most = timeout_seconds > 0.0 ? timeout_seconds / 2.0 : 3600.0;
  const double first = std::min(2.7, 0.75 * most);
  const double turn = std::min(0.3, (most - first) / turns);
  return Seconds(first + turn * std::min(rank, turns));
}

/// Whether this rank is the first of its host to claim that; of its job's own memory where a parent
/// watches it, and where they have none to share, or nobody watches, until this process ends.
bool is_first_of_host(HostClaim claim, const char* name) {
  HostClaims* const shared = host_claims();
  if (shared != nullptr && !shared->claim(claim)) return false;
  const std::string job = pmix_job();
  return job.empty() || claims_on_host(job, name, true);
}

/// Whether this is the first rank of its host that ends with an error in its turn. With short
/// time-outs, or among many ranks, turns follow each other sooner than a launcher ends the next
/// one.
bool is_first_with_error(const MpiSession* session) {
  // What starts a rank is of a job too.
  if (session == nullptr || (!session->distributed() && pmix_job().empty())) return true;
  return is_first_of_host(HostClaim::error, "error");
}

/// Whether this is the first rank of its host that speaks last words: those that hang together may
/// come to it at one moment. Not is_first_with_error(), which one that is still silent may be.
bool is_first_with_last_words(bool distributed) {
  return !distributed || is_first_of_host(HostClaim::last_words, "last-words");
}

/// Whether a rank of this host was ended by a signal, of which its watcher tells: what this one has
/// met may come of that, as where ranks share a GPU, or of the job's end.
bool has_killed_neighbour() {
  HostClaims* const shared = host_claims();
  return shared != nullptr && shared->is_claimed(HostClaim::killed_rank);
}

/// Until a watcher has seen the end of a killed neighbour, for killed_rank_patience() at most.
/// Where nobody watches, MpiWatch has looked.
void wait_for_killed_neighbour(const MpiSession* session) {
  if (host_claims() == nullptr) return;
  const Seconds patience =
      killed_rank_patience(session == nullptr ? 0.0 : session->timeout_seconds());
  const auto start = std::chrono::steady_clock::now();
  while (!has_killed_neighbour() && std::chrono::steady_clock::now() - start < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Whether no other rank of this host tells of the error with which it ends the job; then this one
/// does.
bool ends_the_job() {
  HostClaims* const shared = host_claims();
  return shared == nullptr || shared->claim(HostClaim::ends_job);
}

/// For who has told of an error, or is about to, to have the launcher end this process.
constexpr std::chrono::seconds launchers_turn(4);

/// Until this rank may tell of what others may have met too, or may tell better, unless it was
/// ended before.
void wait_for_turn(const Failure& failure, const MpiSession* session) {
  const auto be_silent = [session](int turn) {
    const double patience = session == nullptr ? 0.0 : session->timeout_seconds();
    std::this_thread::sleep_for(silence_before_error(turn, patience));
  };
  // Behind all turns, as the rank that has met the error may be of another host; and before it is
  // claimed, as it may be of this one.
  if (failure.comes_of_another) be_silent(turns);
  const bool is_first = is_first_with_error(session);
  if (process_rank() > 0) be_silent(process_rank());
  const bool waits = process_rank() > 0 || failure.comes_of_another;
  if (waits && !is_first) std::this_thread::sleep_for(launchers_turn);
}

/// tell() alone uses it, one thread at a time.
bool g_told = false;

/// Who ends this process: it may be said once.
enum class Ender : std::uint8_t { nobody, main, last_words };
std::atomic<Ender> g_ender = Ender::nobody;

/// Whether it is `ender` from here on, or was before.
bool takes_the_end(Ender ender) {
  Ender found = Ender::nobody;
  return g_ender.compare_exchange_strong(found, ender) || found == ender;
}

using Write = std::function<void()>;

/// For what writes to the terminal, which may be held, or the log's file, which may lie on the very
/// disk that hangs: then it is left behind.
void try_to(const Write& write) {
  constexpr std::chrono::seconds patience(1);
  std::packaged_task<void()> task(write);
  const std::future<void> done = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    write();  // no thread can be started
    return;
  }
  done.wait_for(patience);
}

void wait_for(const Write& write) { write(); }

/// Once for this process, by try_to() or wait_for(); whoever comes second waits for the first,
/// since it goes on to end the process. Beside a rank that a signal has ended, or that ends the
/// job, the log has the line at once, and the terminal where the launcher does not end this
/// process in its turn.
void tell(const std::string& line, void (*run)(const Write&)) {
  static std::mutex telling;
  const std::lock_guard<std::mutex> turn(telling);
  if (std::exchange(g_told, true)) return;
  const auto write = [&line](void (*by)(const Write&), LogPlace place) {
    by([line, place] { write_log_line(place, LogLevel::error, one_line(line)); });
  };
  if (!has_killed_neighbour() && ends_the_job()) {
    write(run, LogPlace::terminal);
    write(run, LogPlace::file);
    return;
  }
  write(try_to, LogPlace::file);  // the terminal's turn comes whatever that disk does
  std::this_thread::sleep_for(launchers_turn);
  if (has_killed_neighbour() && host_claims()->is_claimed(HostClaim::told_error)) return;
  write(run, LogPlace::terminal);
}

/// On a thread of its own, with the words of an error that has not reached main(). It may yet: what
/// a device is at may end, and then nothing has to be left as it is.
void end_unreached(const MpiSession& session, bool distributed, const std::string& words,
                   std::chrono::milliseconds grace) {
  // The object that would say so when it is destroyed may be what is not reached.
  explain_own_end();
  if (!is_first_with_last_words(distributed)) {
    std::this_thread::sleep_for(launchers_turn);
    if (g_ender == Ender::main) return;
  }
  tell(words, try_to);
  std::this_thread::sleep_for(grace);
  if (!takes_the_end(Ender::last_words)) return;
  try_to(close_log_file);
  session.abort(ExitCode::failure);
  ::_exit(ExitCode::failure);  // alone
}

}  // namespace

void end_where_main_is_not_reached(const MpiSession& session) {
  // Longer than whoever catches the error takes to throw a better one, and shorter than the second
  // that mpirun gives the others where a rank has ended.
  constexpr std::chrono::milliseconds patience(300);
  // The session is used by whoever ends this process alone: main() may take it down before.
  const bool distributed = session.distributed();
  speak_last_words(
      patience, [&session, distributed](const std::string& words, std::chrono::milliseconds grace) {
        end_unreached(session, distributed, words, grace);
      });
}

void main_is_reached() {
  silence_last_words();
  if (takes_the_end(Ender::main)) return;
  for (;;) ::pause();  // the other thread is ending this process
}

void work_is_done() {
  while (last_words_are_left()) ::pause();
  main_is_reached();
}

int failure_code() { return current_failure().code; }

int end_failed(const MpiSession* session) {
  const Failure failure = current_failure();
  main_is_reached();
  if (failure.may_follow_killed_rank) wait_for_killed_neighbour(session);
  const bool takes_turns = failure.teller == Teller::each_in_turn;
  if (takes_turns) wait_for_turn(failure, session);
  // What several ranks could have met says whose it is.
  const bool whose = takes_turns && failure.code == ExitCode::failure && session != nullptr &&
                     session->distributed();
  tell(whose ? fmt::format("{} ({})", failure.line, process_place()) : failure.line, wait_for);
  // Beside a killed rank the line above may still be on its way to a disk that hangs.
  has_killed_neighbour() ? try_to(close_log_file) : close_log_file();
  if (failure.launcher_ends_job) std::this_thread::sleep_for(launchers_turn);
  if (session != nullptr) session->abort(failure.code);
  return failure.code;
}

}  // namespace tandem
