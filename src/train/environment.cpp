#include "train/environment.h"

#include <chrono>
#include <ctime>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/host_name.h"

namespace tandem {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string result;
  for (std::string word; std::getline(file, word, '\0');) {
    if (!result.empty()) result += ' ';
    result += quoted(word);
  }
  return result;
}

}  // namespace

std::string utc_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  TANDEM_CHECK(::gmtime_r(&now, &parts) != nullptr, "the clock's time is out of range");
  char text[sizeof "2024-05-06T07:08:09Z" + 8];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

std::string tandem_version() { return TANDEM_VERSION; }

std::vector<std::pair<std::string, std::string>> environment_facts() {
  return {{"date", utc_time()},
          {"host", host_name()},
          {"command", command_line()},
          {"tandem", tandem_version()},
          {"compiler", TANDEM_COMPILER}};
}

}  // namespace tandem
