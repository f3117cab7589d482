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

using Step = std::atomic<std::int64_t>;
static_assert(Step::is_always_lock_free);

constexpr const char* variable_name = "TANDEM_STEP_DESCRIPTOR";
constexpr const char* memory_name = "tandem-step";

void* map(int descriptor) {
  return ::mmap(nullptr, sizeof(Step), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
}

/// The watching parent's word; null where there is none. Whoever inherited the variable alone has
/// something else under that number.
Step* shared_step() {
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
  return memory == MAP_FAILED ? nullptr : static_cast<Step*>(memory);
}

Step* parents_cell() {
  static Step* const shared = shared_step();
  return shared;
}

Step& step_cell() {
  static Step own{0};
  Step* const shared = parents_cell();
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
  return place_text(process_rank(), g_device, step_cell().load());
}

void set_process_device(const std::string& device) {
  const std::scoped_lock lock(g_device_mutex);
  g_device = device;
}

void set_process_step(std::int64_t step) { step_cell().store(step, std::memory_order_relaxed); }

bool has_watching_parent() { return parents_cell() != nullptr; }

ChildStep::ChildStep() : descriptor_(::memfd_create(memory_name, 0)) {
  if (descriptor_ < 0 || ::ftruncate(descriptor_, sizeof(Step)) != 0) {
    system_error("no shared memory: {}", std::strerror(errno));
  }
  memory_ = map(descriptor_);
  if (memory_ == MAP_FAILED) system_error("no shared memory: {}", std::strerror(errno));
}

ChildStep::~ChildStep() {
  // Nothing that could fail is left to do with either.
  static_cast<void>(::munmap(memory_, sizeof(Step)));
  static_cast<void>(::close(descriptor_));
}

std::pair<std::string, std::string> ChildStep::variable() const {
  return {variable_name, fmt::format("{}", descriptor_)};
}

std::int64_t ChildStep::value() const { return static_cast<const Step*>(memory_)->load(); }

}  // namespace tandem
