#include "base/process_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "base/host_name.h"
#include "base/last_words.h"
#include "base/process_report.h"

namespace tandem {
namespace {

std::mutex g_device_mutex;
std::string g_device;

/// As at_step() has it, whichever step: not as a file's name may begin.
bool begins_with_step(std::string_view words) {
  constexpr std::string_view start = "step ";
  if (!words.starts_with(start)) return false;
  const std::size_t end = words.find_first_not_of("0123456789", start.size());
  return end != std::string_view::npos && end > start.size() && words.substr(end).starts_with(": ");
}

}  // namespace

std::string place_text(int rank, const std::string& device, std::int64_t step) {
  return place_text(rank >= 0 ? fmt::format("rank {}", rank) : "", device, step, step);
}

std::string place_text(const std::string& ranks, const std::string& device, std::int64_t first_step,
                       std::int64_t last_step) {
  std::string text = ranks.empty() ? host_name() : fmt::format("{} on {}", ranks, host_name());
  if (!device.empty()) text += ", " + device;
  if (last_step > 0 && last_step > first_step) {
    text += fmt::format(", steps {} to {}", std::max<std::int64_t>(first_step, 0), last_step);
  } else if (last_step > 0) {
    text += fmt::format(", step {}", last_step);
  } else if (last_step == ProcessReport::before_first_step) {
    text += ", step 0";
  }
  return text;
}

std::string process_place() {
  const std::scoped_lock lock(g_device_mutex);
  return place_text(process_rank(), g_device, own_report().step());
}

std::string at_step() {
  const std::int64_t step = own_report().step();
  return step > 0 ? fmt::format("step {}: ", step) : std::string();
}

void leave_last_words_of_step(const std::string& words, std::chrono::milliseconds grace) noexcept {
  try {
    leave_last_words(begins_with_step(words) ? words : at_step() + words, grace);
  } catch (const std::exception&) {
    leave_last_words(words, grace);
  }
}

void set_process_device(const std::string& device) {
  const std::scoped_lock lock(g_device_mutex);
  g_device = device;
}

}  // namespace tandem
