#include "parallel/mpi/mpi_error.h"

#include <mpi.h>

#include <array>

#include "base/error.h"

namespace tandem {

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  const bool known = MPI_Error_string(code, text.data(), &length) == MPI_SUCCESS;
  throw Error(fmt::format("{} failed: {}", call,
                          known ? text.data() : fmt::format("error code {}", code).c_str()),
              call, file, line);
}

}  // namespace tandem
