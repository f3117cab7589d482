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

constexpr const char* variable_name = "TANDEM_REPORT";

/// Whoever inherited the variable alone has something else under that number.
bool holds_reports(int descriptor) {
  std::error_code code;
  const auto file =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), code);
  return !code && file.filename().string().find(report_file_start) != std::string::npos;
}

/// The watching parent's memory; null where there is none. Stays mapped for good.
ProcessReport* parents_report() {
  const char* const text = std::getenv(variable_name);
  const std::string_view value = text == nullptr ? "" : text;
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) return nullptr;
  const auto descriptor = parse_number<int>(value.substr(0, colon));
  const auto offset = parse_number<std::size_t>(value.substr(colon + 1));
  struct stat status {};
  if (!descriptor || !offset || !holds_reports(*descriptor) || ::fstat(*descriptor, &status) != 0) {
    return nullptr;
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (*offset % alignof(ProcessReport) != 0 || *offset > bytes ||
      bytes - *offset < sizeof(ProcessReport)) {
    return nullptr;
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  return reinterpret_cast<ProcessReport*>(static_cast<std::byte*>(memory) + *offset);
}

ProcessReport* shared_report() {
  static ProcessReport* const shared = parents_report();
  return shared;
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
  return {variable_name, fmt::format("{}:{}", descriptor, offset)};
}

ProcessReport& own_report() {
  static ProcessReport own;
  ProcessReport* const shared = shared_report();
  return shared != nullptr ? *shared : own;
}

bool has_watching_parent() { return shared_report() != nullptr; }

}  // namespace tandem
