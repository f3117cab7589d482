#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator.h"

namespace tandem {

/// Every rank's text, in rank order, on every rank; lengths may differ. Collective.
std::vector<std::string> all_gather_text(Communicator& communicator, std::string_view text);

/// The root's text, on every rank; the others' is ignored. Collective.
std::string broadcast_text(Communicator& communicator, std::string text, int root);

/// Every rank's values, rank after rank, on every rank; the same number of them everywhere.
std::vector<std::int64_t> all_gather_values(Communicator& communicator,
                                            std::span<const std::int64_t> values);

/// "rank 3", "ranks 0, 2 and 3", for messages.
std::string ranks_text(std::span<const int> ranks);
/// "process 3", "processes 0, 2 and 3", where each carries several ranks.
std::string processes_text(std::span<const int> processes);

/// "rank 0 has A; ranks 1 and 2 have B", of every rank's text; "rank 0 on here has A; ranks 1 and 2
/// on there have B" with every rank's host.
std::string who_has_what(std::span<const std::string> texts,
                         std::span<const std::string> hosts = {});

}  // namespace tandem
