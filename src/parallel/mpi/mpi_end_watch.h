#pragma once

namespace tandem {

/// From here to the process's end, which MPI_Finalize makes wait for all ranks of the job: where it
/// does not come for `timeout_seconds` (0: never mind), and the rank's turn (in_turn()), an error
/// line says so, and the process ends with code 1, upon which the launcher ends the others. Time in
/// which what started it was stopped does not count.
void watch_mpi_end(double timeout_seconds, int rank);

}  // namespace tandem
