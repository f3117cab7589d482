#include "train/record/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tandem {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The descriptor that reaches the person: the given one, or under Open MPI the parent's, opened
/// for as long as this lives; -1 where it cannot be reached.
class Outlet {
 public:
  explicit Outlet(int descriptor) : descriptor_(descriptor) {
    if (environment("OMPI_COMM_WORLD_SIZE").empty()) return;
    descriptor_ = -1;
    const std::string path = fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor);
    struct stat status {};
    // Only a character device can be a terminal; opening a pipe could block or disturb it.
    if (::stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return;
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    opened_ = descriptor_ >= 0;
  }
  ~Outlet() {
    // Nothing was written to it that closing could lose.
    if (opened_) static_cast<void>(::close(descriptor_));
  }
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  int get() const { return descriptor_; }

 private:
  int descriptor_;
  bool opened_ = false;
};

}  // namespace

bool is_live_terminal(int descriptor) {
  const std::string_view kind = environment("TERM");
  if (kind.empty() || kind == "dumb") return false;
  const Outlet outlet(descriptor);
  return outlet.get() >= 0 && ::isatty(outlet.get()) == 1;
}

int terminal_width(int descriptor) {
  const Outlet outlet(descriptor);
  winsize size{};
  if (outlet.get() >= 0 && ::ioctl(outlet.get(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const std::string_view text = environment("COLUMNS");
  int columns = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool number = code == std::errc{} && end == text.data() + text.size();
  return number && columns > 0 ? columns : 80;
}

}  // namespace tandem
