#include "train/gpu_use.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

/// One rank's part.
struct Reading {
  bool reads = false;  ///< first on its GPU
  GpuActivity activity;
};
static_assert(std::is_trivially_copyable_v<Reading>);

constexpr std::array shares{&GpuActivity::sm_activity, &GpuActivity::sm_occupancy,
                            &GpuActivity::tensor_activity, &GpuActivity::dram_activity};

/// The sum over the GPUs; absent where one does not tell.
std::optional<double> sum(const std::vector<Reading>& readings,
                          std::optional<double> GpuActivity::*value) {
  double total = 0.0;
  for (const Reading& reading : readings) {
    if (!reading.reads) continue;
    if (!(reading.activity.*value)) return std::nullopt;
    total += *(reading.activity.*value);
  }
  return total;
}

bool is_first(const std::vector<std::string>& uuids, int rank) {
  const auto mine = uuids.begin() + rank;
  return std::find(uuids.begin(), mine, *mine) == mine;
}

}  // namespace

GpuUse::GpuUse(Communicator& communicator, const std::string& uuid, const char* library,
               double shortest)
    : communicator_(communicator), on_gpus_(!uuid.empty()), shortest_(shortest) {
  if (!on_gpus_) return;
  if (is_first(all_gather_text(communicator, uuid), communicator.rank())) {
    monitor_.emplace(uuid, library);
  }
  const std::vector<std::string> troubles =
      all_gather_text(communicator, monitor_ ? monitor_->trouble() : std::string());
  const auto first = std::ranges::find_if(troubles, [](const auto& text) { return !text.empty(); });
  if (communicator.rank() != 0 || first == troubles.end()) return;
  const auto rank = first - troubles.begin();
  log_info("some GPU counters are unavailable{}: {}",
           rank > 0 ? fmt::format(" (rank {})", rank) : "", *first);
}

void GpuUse::begin() {
  if (monitor_) monitor_->begin();
  stretch_ = {};
  told_ = false;
}

void GpuUse::paused(double seconds) {
  if (told_ || !stretch_.trained) {
    begin();
    return;
  }
  stretch_.paused = true;
  stretch_.paused_seconds += seconds;
}

double GpuUse::seconds() const {
  double seconds = std::chrono::duration<double>(Clock::now() - stretch_.began).count();
  communicator_.broadcast(Tensor(&seconds, {sizeof seconds}, DType::u8), 0);
  return seconds;
}

std::optional<GpuStretch> GpuUse::end(std::int64_t samples) {
  if (!on_gpus_) return std::nullopt;
  stretch_.trained = true;
  stretch_.samples += samples;
  const double whole_seconds = seconds();
  if (whole_seconds < shortest_) return std::nullopt;
  const Stretch stretch = std::exchange(stretch_, {});
  told_ |= !stretch.paused;
  Reading mine;
  mine.reads = monitor_.has_value();
  if (monitor_) mine.activity = monitor_->end();
  const bool root = communicator_.rank() == 0;
  std::vector<Reading> all(root ? static_cast<std::size_t>(communicator_.size()) : 0);
  communicator_.gather(
      Tensor(&mine, {sizeof(Reading)}, DType::u8),
      root ? Tensor(all.data(), {communicator_.size(), sizeof(Reading)}, DType::u8) : Tensor(), 0);
  if (!root) return std::nullopt;
  const auto gpus = static_cast<double>(std::ranges::count_if(all, &Reading::reads));
  GpuActivity whole;
  for (const auto share : shares) {
    if (const std::optional<double> total = sum(all, share)) whole.*share = *total / gpus;
  }
  whole.energy_joules = sum(all, &GpuActivity::energy_joules);
  return GpuStretch{.activity = whole,
                    .seconds = whole_seconds,
                    .training_seconds = whole_seconds - stretch.paused_seconds,
                    .samples = stretch.samples};
}

}  // namespace tandem
