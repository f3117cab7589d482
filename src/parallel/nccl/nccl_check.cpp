#include "parallel/nccl/nccl_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "parallel/communicator.h"

namespace tandem {

void check_nccl(ncclResult_t result, ncclComm_t comm, std::string_view call, const char* file,
                int line) {
  if (result == ncclSuccess) return;
  const char* words = ncclGetLastError(comm);
  std::string detail = words == nullptr ? "" : words;
  detail.erase(detail.find_last_not_of(" \n") + 1);
  std::ranges::replace(detail, '\n', ' ');  // an error is one line
  const std::string message =
      fmt::format("NCCL failed: {}{}{} in {} at {}:{}; NCCL_DEBUG=WARN says more",
                  ncclGetErrorString(result), detail.empty() ? "" : ": ", detail, call, file, line);
  if (result == ncclRemoteError) throw PeerError(message);
  throw SystemError(message);
}

}  // namespace tandem
