#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/run_history.h"

namespace tandem {

/// What every page begins with: nothing else does.
inline constexpr std::string_view report_page_start =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Tandem: ";

/// One HTML page about the runs that needs nothing beside itself: no network, no other file. It
/// shows curves without its script too, which only hides runs and reads values under the pointer.
/// `made`: when and with what the page was made, a line for its foot. `runs` is not empty.
std::string report_page(std::span<const RunHistory> runs, const std::string& made);

}  // namespace tandem
