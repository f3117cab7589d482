#include "base/process_report.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace tandem {
namespace {

/// Whoever inherited the variable alone has something else under that number.
bool holds_reports(int descriptor) {
  std::error_code code;
  const auto file =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), code);
  return !code && file.filename().string().find(report_file_start) != std::string::npos;
}

/// What this process shares with its watching parent; null where there is none.
struct Shared {
  HostClaims* claims = nullptr;
  ProcessReport* report = nullptr;
};

bool holds(std::size_t bytes, std::size_t offset) {
  return offset % alignof(ProcessReport) == 0 && offset >= sizeof(HostClaims) && offset <= bytes &&
         bytes - offset >= sizeof(ProcessReport);
}

/// Stays mapped for good.
Shared shared_with_parent() {
  const char* const text = std::getenv(process_report_variable);
  const std::string_view value = text == nullptr ? "" : text;
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) return {};
  const auto descriptor = parse_number<int>(value.substr(0, colon));
  const auto offset = parse_number<std::size_t>(value.substr(colon + 1));
  struct stat status {};
  if (!descriptor || !offset || !holds_reports(*descriptor) || ::fstat(*descriptor, &status) != 0) {
    return {};
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (!holds(bytes, *offset)) return {};
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
  if (memory == MAP_FAILED) return {};
  auto* const start = static_cast<std::byte*>(memory);
  return {.claims = reinterpret_cast<HostClaims*>(start),
          .report = reinterpret_cast<ProcessReport*>(start + *offset)};
}

const Shared& shared() {
  static const Shared found = shared_with_parent();
  return found;
}

}  // namespace

void ProcessReport::set_wait(std::string_view operation) {
  const std::size_t length = std::min(operation.size(), wait_.size() - 1);
  ++wait_version_;
  for (std::size_t i = 0; i < length; ++i) wait_[i] = operation[i];
  wait_[length] = '\0';
  ++wait_version_;
}

std::string ProcessReport::wait() const {
  // Where the writer died in the midst of it, there is no text.
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint32_t version = wait_version_;
    std::string text;
    for (const std::atomic<char>& each : wait_) {
      const char letter = each;
      if (letter == '\0') break;
      text += letter;
    }
    if (version % 2 == 0 && wait_version_ == version) return text;
  }
  return {};
}

std::pair<std::string, std::string> report_variable(int descriptor, std::size_t offset) {
  return {process_report_variable, fmt::format("{}:{}", descriptor, offset)};
}

ProcessReport& own_report() {
  static ProcessReport own;
  ProcessReport* const parents = shared().report;
  return parents != nullptr ? *parents : own;
}

bool has_watching_parent() { return shared().report != nullptr; }

HostClaims* host_claims() {
  // Whatever writes an error line asks: that alone does not settle what own_report() is.
  return std::getenv(process_report_variable) == nullptr ? nullptr : shared().claims;
}

}  // namespace tandem
