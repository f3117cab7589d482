#include "base/temporary_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "base/host_tag.h"
#include "base/text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = ".tmp.";

bool is_unchanged_for(const fs::path& path, std::chrono::hours least) {
  std::error_code code;
  const auto changed = fs::last_write_time(path, code);
  return !code && fs::file_time_type::clock::now() - changed > least;
}

}  // namespace

fs::path temporary_name(const fs::path& path) {
  static const unsigned number = std::random_device{}();
  fs::path name = path;
  name += fmt::format("{}{}-{}-{:08x}", mark, host_tag(), ::getpid(), number);
  return name;
}

bool left_by_dead_writer(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(mark);
  if (at == std::string::npos) return false;
  const std::string_view writer = std::string_view(name).substr(at + mark.size());
  const std::size_t process = writer.find('-');
  const std::size_t number = writer.rfind('-');
  if (process == std::string_view::npos || number == process) return false;
  const auto id = parse_number<pid_t>(writer.substr(process + 1, number - process - 1));
  if (!id || *id <= 0) return false;
  if (writer.substr(0, process) != host_tag()) return is_unchanged_for(path, std::chrono::hours(1));
  return *id == ::getpid() || (::kill(*id, 0) != 0 && errno == ESRCH);
}

}  // namespace tandem
