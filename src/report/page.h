#pragma once

#include <span>
#include <string>

#include "report/run_history.h"

namespace tandem {

/// One HTML page about the runs that needs nothing beside itself: no network, no other file. It
/// shows curves without its script too, which only hides runs and reads values under the pointer.
/// `made`: when and with what the page was made, a line for its foot. `runs` is not empty.
std::string report_page(std::span<const RunHistory> runs, const std::string& made);

}  // namespace tandem
