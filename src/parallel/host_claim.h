#pragma once

#include <string>

namespace tandem {

/// What PMIx, which Open MPI and Slurm use, calls this process's job; empty where the launcher uses
/// another. Reads the environment.
std::string pmix_job();

/// Whether this process is the first one of its host to claim `what` in the job of that name, not
/// empty, which is then its own until it ends. `unknown` where the system does not tell.
bool claims_on_host(const std::string& job, const std::string& what, bool unknown);

/// The same until the job ends, also where the process that claimed it has ended: a file in the
/// folder of its PMIx server, which the server removes. Where there is none it is claims_on_host(),
/// and true where the system does not tell.
bool claims_until_job_ends(const std::string& job, const std::string& what);
/// Whether a process of this host has done so; false where the server has no folder.
bool is_claimed_until_job_ends(const std::string& job, const std::string& what);

/// What the watcher of a rank that a signal has ended claims: it tells, and what others of the host
/// meet behind that is no news.
inline constexpr const char* killed_rank_claim = "killed";

}  // namespace tandem
