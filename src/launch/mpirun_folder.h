#pragma once

#include <sys/types.h>

namespace tandem {

/// Removes the folder of an mpirun of Open MPI that a signal has ended on this host just now, a
/// child of this process: TMPDIR/ompi.HOST.UID/pid.PID, several MiB, which it removes itself where
/// it ends in another way. Another MPI's has none.
void remove_mpirun_folder(pid_t mpirun);

}  // namespace tandem
