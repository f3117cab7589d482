#include "launch/own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

namespace tandem {

bool is_own_folder(const std::filesystem::path& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid() && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

}  // namespace tandem
