#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <utility>

namespace tandem {

enum class LogLevel { debug, info, warning, error };

/// Opens `file` (appending) as this process's log beside standard error. The first one also takes
/// what was said before, but for debug messages, a thousand at most.
///
/// Rank 0 (or an unranked process) prints all levels, debug only with TANDEM_LOG=debug (its other
/// value is info; one that is neither is warned of once); other ranks print errors alone, each line
/// with its rank. The file, which only rank 0 should open, takes
/// everything with a time stamp. Throws InputError where the file cannot be opened.
void open_log_file(const std::filesystem::path& file);

/// Whether debug messages are printed, by TANDEM_LOG.
bool shows_debug_log();

/// Why the log file could not be written the first time that it could not be, the file's name in
/// it; empty where all is well. Writing a message never throws, so whoever keeps the log asks.
std::string log_file_failure();

/// Flushes and closes the log file.
void close_log_file();

/// Where messages go.
enum class LogPlace { terminal, file };

/// Writes one already formatted message. Thread-safe.
void write_log(LogLevel level, const std::string& message);
/// The same, to one of the places alone.
void write_log_line(LogPlace place, LogLevel level, const std::string& message);

/// Called before any line goes to the terminal, so that a live progress line can be cleared first.
/// An empty function removes it.
void set_log_interrupt(void (*clear_line)());

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tandem
