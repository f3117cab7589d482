#include "base/error.h"

#include <atomic>

namespace tandem {
namespace {

std::atomic<int> g_rank{-1};

std::string describe(std::string_view message, std::string_view expression, std::string_view file,
                     int line) {
  if (const auto src = file.rfind("src/"); src != std::string_view::npos) file.remove_prefix(src);
  std::string text = fmt::format("{} [", message);
  if (!expression.empty()) text += fmt::format("check '{}' failed ", expression);
  text += fmt::format("at {}:{}", file, line);
  if (process_rank() >= 0) text += fmt::format(", rank {}", process_rank());
  return text + "]";
}

}  // namespace

void set_process_rank(int rank) { g_rank = rank; }
int process_rank() { return g_rank; }

bool is_shortage(const std::error_code& code) {
  return code == std::errc::not_enough_memory || code == std::errc::too_many_files_open ||
         code == std::errc::too_many_files_open_in_system;
}

void file_error(std::string_view what, const std::error_code& code) {
  const std::string message = fmt::format("{}: {}", what, code.message());
  if (is_shortage(code)) throw SystemError(message);
  throw InputError(message);
}

Error::Error(std::string_view message, std::string_view expression, const char* file, int line)
    : std::runtime_error(describe(message, expression, file, line)) {}

}  // namespace tandem
