#include "base/process_place.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

/// What a process says of itself. Zeroed memory is one that has said nothing.
struct Report {
  std::atomic<std::int64_t> step{0};
  std::atomic<double> timeout_seconds{0.0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<double>::is_always_lock_free);

constexpr const char* variable_name = "TANDEM_REPORT_DESCRIPTOR";
constexpr const char* memory_name = "tandem-report";

void* map(int descriptor) {
  return ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
}

/// The watching parent's memory; null where there is none. Whoever inherited the variable alone has
/// something else under that number.
Report* shared_report() {
  const char* text = std::getenv(variable_name);
  const auto descriptor = text == nullptr ? std::nullopt : parse_number<int>(text);
  if (!descriptor) return nullptr;
  std::array<char, 64> name{};
  const std::string link = fmt::format("/proc/self/fd/{}", *descriptor);
  if (::readlink(link.c_str(), name.data(), name.size() - 1) < 0) return nullptr;
  if (!std::string_view(name.data()).starts_with(fmt::format("/memfd:{}", memory_name))) {
    return nullptr;
  }
  void* const memory = map(*descriptor);
  return memory == MAP_FAILED ? nullptr : static_cast<Report*>(memory);
}

Report* parents_report() {
  static Report* const shared = shared_report();
  return shared;
}

Report& report() {
  static Report own;
  Report* const shared = parents_report();
  return shared != nullptr ? *shared : own;
}

std::mutex g_device_mutex;
std::string g_device;

}  // namespace

std::string place_text(int rank, const std::string& device, std::int64_t step) {
  return place_text(rank >= 0 ? fmt::format("rank {}", rank) : "", device, step, step);
}

std::string place_text(const std::string& ranks, const std::string& device, std::int64_t first_step,
                       std::int64_t last_step) {
  std::array<char, 256> host{};
  // For the message alone: an unknown host is no reason to lose it.
  if (::gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "an unknown host");
  std::string text = ranks.empty() ? host.data() : fmt::format("{} on {}", ranks, host.data());
  if (!device.empty()) text += ", " + device;
  if (last_step > first_step) {
    text += fmt::format(", steps {} to {}", first_step, last_step);
  } else if (last_step > 0) {
    text += fmt::format(", step {}", last_step);
  }
  return text;
}

std::string process_place() {
  const std::scoped_lock lock(g_device_mutex);
  return place_text(process_rank(), g_device, report().step.load());
}

void set_process_device(const std::string& device) {
  const std::scoped_lock lock(g_device_mutex);
  g_device = device;
}

void set_process_step(std::int64_t step) { report().step.store(step, std::memory_order_relaxed); }

void set_process_timeout(double seconds) { report().timeout_seconds.store(seconds); }

bool has_watching_parent() { return parents_report() != nullptr; }

ChildReport::ChildReport() : descriptor_(::memfd_create(memory_name, 0)) {
  if (descriptor_ < 0 || ::ftruncate(descriptor_, sizeof(Report)) != 0) {
    system_error("no shared memory: {}", std::strerror(errno));
  }
  memory_ = map(descriptor_);
  if (memory_ == MAP_FAILED) system_error("no shared memory: {}", std::strerror(errno));
}

ChildReport::~ChildReport() {
  // Nothing that could fail is left to do with either.
  static_cast<void>(::munmap(memory_, sizeof(Report)));
  static_cast<void>(::close(descriptor_));
}

std::pair<std::string, std::string> ChildReport::variable() const {
  return {variable_name, fmt::format("{}", descriptor_)};
}

std::int64_t ChildReport::step() const { return static_cast<const Report*>(memory_)->step.load(); }

double ChildReport::timeout_seconds() const {
  return static_cast<const Report*>(memory_)->timeout_seconds.load();
}

}  // namespace tandem
