#include "base/remove_folder.h"

#include <chrono>
#include <system_error>
#include <thread>

namespace tandem {

bool remove_folder(const std::filesystem::path& path) {
  // Each round ends at an entry that another process took away or put there, so that many in a row
  // mean one that does so for ever.
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (!code) return true;
    const bool by_others =
        code == std::errc::no_such_file_or_directory || code == std::errc::directory_not_empty;
    if (!by_others) return false;
  }
  return false;
}

}  // namespace tandem
