#pragma once

namespace tandem {

/// Throws Error with MPI's text for `code`, named after the MPI function `call`, unless the code is
/// MPI_SUCCESS. For the library's own use.
void check_mpi(int code, const char* call, const char* file = __builtin_FILE(),
               int line = __builtin_LINE());

}  // namespace tandem
