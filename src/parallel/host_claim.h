#pragma once

#include <string>

namespace tandem {

/// What PMIx, which Open MPI and Slurm use, calls this process's job; empty where the launcher uses
/// another. Reads the environment.
std::string pmix_job();

/// Whether this process is the first one of its host to claim `what` in the job of that name, not
/// empty, which is then its own until it ends. `unknown` where the system does not tell.
bool claims_on_host(const std::string& job, const std::string& what, bool unknown);

}  // namespace tandem
