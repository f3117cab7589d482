#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/host_claims.h"
#include "parallel/mpi/ranks_on_host.h"
#include "parallel/placement/launched_job.h"

namespace tandem {

inline constexpr double usual_start_seconds = 20.0;

/// For how long ranks wait for one another while MPI starts: TANDEM_START_SECONDS of the
/// environment, 0 for ever; usual_start_seconds where it is not set. The config is not read by
/// then. Throws InputError where it is no such number.
double mpi_start_seconds(const ReadEnvironment& environment);

/// For how long ranks wait for others that start slowly: the same of this process's environment,
/// infinity in the place of 0.
double start_patience();

/// For how long ranks wait for one another where they first meet, which usually is `seconds`: for
/// as long as for those that start slowly, where more than usual is asked for these.
double meeting_patience(double seconds, const ReadEnvironment& environment);

/// Whom a rank on `host` waited for, of a job of `size` ranks; 0: unknown. Nothing is known of
/// ranks of other hosts, nor of any where the launcher does not tell which processes are the job's.
std::string start_timeout_text(const RanksOnHost& ranks, int size, const std::string& host,
                               double seconds);

/// MPI_Init returns once all ranks of the job have come to it, and waits for ever for one that is
/// stopped or hangs before. While this object lives, a thread of its own looks at the time: where
/// it is over, one rank of a host says for whom it waited, and its process ends with code 1, upon
/// which the launcher ends the others. A host that sees who is missing speaks before one that does
/// not. Time in which this process or what started it was stopped does not count, and where all
/// that were missing on this host have come by then, it begins anew.
class MpiStartWatch {
 public:
  /// `seconds` 0: waits for ever, and is only seen by others to have come.
  MpiStartWatch(double seconds, LaunchedJob job);
  /// MPI has started.
  ~MpiStartWatch();
  MpiStartWatch(const MpiStartWatch&) = delete;
  MpiStartWatch& operator=(const MpiStartWatch&) = delete;

 private:
  using Seconds = std::chrono::duration<double>;

  void look(const std::stop_token& started);
  /// Waits until the time is over, or MPI has started: true then.
  bool starts_in_time(const std::stop_token& started);
  /// Whether this process is the one of its host that speaks for the job.
  bool claims_speech() const;
  /// True where MPI has started meanwhile.
  bool rest(const std::stop_token& started, Seconds time);

  Seconds longest_;
  LaunchedJob job_;
  std::string name_;              ///< of the job, by PMIx; empty where the launcher uses another
  HostClaims* claims_ = nullptr;  ///< null: no parent watches this process
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace tandem
