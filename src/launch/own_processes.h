#pragma once

#include <sys/types.h>

#include <vector>

namespace tandem {

/// Processes of this host that run this very program and descend from `ancestor`, as /proc tells:
/// behind mpirun, its ranks here. What ends meanwhile is left out.
std::vector<pid_t> own_processes_below(pid_t ancestor);

/// Whether a process that this one descends from is stopped, as by SIGTSTP: its launcher, say.
bool has_stopped_ancestor();

}  // namespace tandem
