#pragma once

#include <source_location>

namespace tandem {

/// Throws Error with MPI's text for `code`, named after the MPI function `call`, unless the code is
/// MPI_SUCCESS. For the library's own use.
void check_mpi(int code, const char* call,
               std::source_location where = std::source_location::current());

}  // namespace tandem
