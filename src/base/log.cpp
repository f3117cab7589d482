#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_work.h"
#include "base/heartbeat.h"
#include "base/host_claims.h"
#include "base/process_report.h"

namespace tandem {
namespace {

std::atomic<void (*)()> g_clear_line{nullptr};
std::mutex g_file_mutex;
std::shared_ptr<spdlog::logger> g_file;
std::string g_file_failure;

/// What was said before there was a file, which takes it as it is opened.
struct EarlyMessage {
  spdlog::log_clock::time_point time;
  LogLevel level;
  std::string message;
};
/// Of this process, under the file's lock. Never destroyed, since threads may speak till the end.
std::vector<EarlyMessage>& early_messages() {
  static auto* const messages = new std::vector<EarlyMessage>;
  return *messages;
}
bool g_keeps_early = true;  // until the first file

/// Debug messages, which are many, are not kept, nor those of ranks that open no file.
void keep_early(LogLevel level, const std::string& message) noexcept {
  constexpr std::size_t most = 1000;
  if (!g_keeps_early || level == LogLevel::debug || process_rank() > 0) return;
  try {
    std::vector<EarlyMessage>& messages = early_messages();
    if (messages.size() < most) messages.push_back({spdlog::log_clock::now(), level, message});
  } catch (const std::bad_alloc&) {  // which may be what it tells of
  }
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// TANDEM_LOG, empty where it is not set.
std::string_view wanted_level() {
  const char* level = std::getenv("TANDEM_LOG");
  return level == nullptr ? "" : level;
}

spdlog::logger& terminal() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("tandem",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    const std::string_view wanted = wanted_level();
    made->set_level(shows_debug_log() ? spdlog::level::debug : spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    if (process_rank() <= 0 && !wanted.empty() && wanted != "debug" && wanted != "info") {
      made->warn("warning: TANDEM_LOG is '{}', but can be 'info' or 'debug'; taken as 'info'",
                 wanted);
    }
    return made;
  }();
  return *logger;
}

std::string prefix(LogLevel level) {
  std::string text;
  if (process_rank() > 0) text += fmt::format("[rank {}] ", process_rank());
  if (level == LogLevel::warning) text += "warning: ";
  if (level == LogLevel::error) text += "error: ";
  return text;
}

}  // namespace

void open_log_file(const std::filesystem::path& file) {
  file_in_hand(file);
  std::shared_ptr<spdlog::sinks::sink> sink;
  try {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  } catch (const spdlog::spdlog_ex& error) {
    input_error("cannot open the log {}: {}", file.string(), error.what());
  }
  auto logger = std::make_shared<spdlog::logger>("tandem-file", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::info);
  // Called while a message is written, under the lock.
  logger->set_error_handler([](const std::string& reason) {
    if (g_file_failure.empty()) g_file_failure = reason;
  });
  const std::scoped_lock lock(g_file_mutex);
  g_file = std::move(logger);
  g_file_failure.clear();
  g_keeps_early = false;
  for (const EarlyMessage& early : std::exchange(early_messages(), {})) {
    g_file->log(early.time, {}, to_spdlog(early.level), early.message);
  }
}

bool shows_debug_log() { return wanted_level() == "debug"; }

std::string log_file_failure() {
  const std::scoped_lock lock(g_file_mutex);
  return g_file_failure;
}

void close_log_file() {
  const std::scoped_lock lock(g_file_mutex);
  if (g_file) g_file->flush();
  g_file.reset();
}

void write_log(LogLevel level, const std::string& message) {
  write_log_line(LogPlace::terminal, level, message);
  write_log_line(LogPlace::file, level, message);
}

void write_log_line(LogPlace place, LogLevel level, const std::string& message) {
  if (place == LogPlace::file) {
    const std::scoped_lock lock(g_file_mutex);
    if (g_file) {
      g_file->log(to_spdlog(level), message);
    } else {
      keep_early(level, message);
    }
  } else if (process_rank() <= 0 || level == LogLevel::error) {
    if (auto* clear = g_clear_line.load(); clear != nullptr) clear();
    // An error may be that of a process whose heart stands still.
    if (level != LogLevel::error) beat_until_writable(STDERR_FILENO);
    terminal().log(to_spdlog(level), prefix(level) + message);
    // The launcher then says no more of why the job has ended.
    HostClaims* const claims = level == LogLevel::error ? host_claims() : nullptr;
    if (claims != nullptr) claims->claim(HostClaim::told_error);
  }
}

void set_log_interrupt(void (*clear_line)()) { g_clear_line = clear_line; }

}  // namespace tandem
