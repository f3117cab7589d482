#include "parallel/device_timeout.h"

#include <utility>

#include "parallel/gather_text.h"

namespace tandem {

CommunicationTimeout device_timeout(const CommunicationTimeout& error, std::vector<int> late) {
  if (late.empty()) {
    return {error.waited(),
            "though all ranks give signs of life: a device hangs, or they wait for one another in "
            "different operations"};
  }
  return late_devices(error.waited(), std::move(late));
}

CommunicationTimeout late_devices(const std::string& waited, std::vector<int> late) {
  const bool one = late.size() == 1;
  const std::string reason =
      fmt::format("for {}, which {} of life, but whose {} not get that far", ranks_text(late),
                  one ? "gives signs" : "give signs", one ? "device does" : "devices do");
  return {waited, reason, std::move(late)};
}

CommunicationTimeout nccl_start_timeout(const CommunicationTimeout& error) {
  return {error.waited(),
          "though all ranks give signs of life: it takes longer here, as on a busy host, a device "
          "hangs, or they do not reach each other by NCCL's ways, of which NCCL_DEBUG=INFO in the "
          "environment tells",
          {},
          error.behind()};
}

}  // namespace tandem
