#include "device/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "base/error.h"

namespace tandem {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

std::optional<double> host_busy_seconds(const std::filesystem::path& root) {
  // proc(5). The times of guests are in those of user and nice.
  enum : std::size_t { user, nice, system, idle, iowait, irq, softirq, steal, kinds };
  std::ifstream file(root / "proc/stat");
  std::string name;
  std::array<double, kinds> ticks{};
  if (!(file >> name) || name != "cpu") return std::nullopt;
  for (double& each : ticks) {
    if (!(file >> each)) return std::nullopt;
  }
  const double busy =
      ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq] + ticks[steal];
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double process_busy_seconds() {
  rusage usage{};
  TANDEM_CHECK(::getrusage(RUSAGE_SELF, &usage) == 0, "getrusage failed");
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int host_processors() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace tandem
