#include "train/record/progress.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "base/heartbeat.h"
#include "base/log.h"

namespace tandem {
namespace {

constexpr double live_interval_seconds = 0.1;
constexpr std::string_view erase_line = "\r\x1b[K";

// The log's interrupt carries no argument, and any thread may log: this names the one live line
// that must make way, and guards its state.
std::mutex g_mutex;
Progress* g_live = nullptr;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
  last_ = options_.clock();
  if (!options_.live) return;
  {
    const std::scoped_lock lock(g_mutex);
    TANDEM_CHECK(g_live == nullptr, "two live progress lines at the same time");
    g_live = this;
  }
  set_log_interrupt(make_way);
}

Progress::~Progress() {
  const std::scoped_lock lock(g_mutex);
  if (g_live != this) return;
  set_log_interrupt(nullptr);
  erase();
  g_live = nullptr;
}

Progress::Due Progress::due() {
  const double now = options_.clock();
  if (!options_.live) {
    if (now - last_ < options_.plain_interval_seconds) return Due::nothing;
    last_ = now;
    return Due::plain;
  }
  const std::scoped_lock lock(g_mutex);
  if (shown_ && now - last_ < live_interval_seconds) return Due::nothing;
  last_ = now;
  return Due::live;
}

// One column stays free: some terminals wrap as soon as the last one is taken.
int Progress::columns() const {
  return (options_.width > 0 ? options_.width : terminal_width(options_.descriptor)) - 1;
}

void Progress::show_plain(const std::string& line) { log_info("{}", line); }

void Progress::show_live(const std::string& line) {
  const std::scoped_lock lock(g_mutex);
  write("\r" + line + "\x1b[K");
  shown_ = true;
}

void Progress::end_epoch(const ProgressState& state) {
  last_ = options_.clock();
  show_plain(format_plain_progress(state));
}

void Progress::clear() {
  const std::scoped_lock lock(g_mutex);
  erase();
}

void Progress::make_way() {
  const std::scoped_lock lock(g_mutex);
  if (g_live != nullptr) g_live->erase();
}

void Progress::erase() {
  if (!shown_) return;
  write(erase_line);
  shown_ = false;
}

void Progress::write(std::string_view text) {
  while (!text.empty()) {
    beat_until_writable(options_.descriptor);
    const ssize_t written = ::write(options_.descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      // A terminal that went away, or is stopped up, must not stop training.
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace tandem
