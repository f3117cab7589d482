#pragma once

namespace tandem {

/// Whether a person watches what is written to `descriptor` (standard error unless told otherwise),
/// so that a line may be rewritten in place: a terminal, and TERM is neither unset nor "dumb".
///
/// Open MPI gives its ranks a pseudo-terminal or a pipe whatever its own output is, so under it
/// (OMPI_COMM_WORLD_SIZE is set) the same descriptor of the parent process, mpirun or its daemon,
/// decides.
bool is_live_terminal(int descriptor = 2);

/// Columns of that terminal; where it does not say, the environment's COLUMNS, else 80.
int terminal_width(int descriptor = 2);

}  // namespace tandem
