#include "train/run_device.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/gather_text.h"
#include "parallel/rank_devices.h"
#include "train/environment.h"

namespace tandem {
namespace {

std::string text_of(DeviceKind kind) {
  if (kind == DeviceKind::automatic) return "auto";
  return kind == DeviceKind::cpu ? "cpu" : "cuda";
}

/// Collective: whether the run computes on the CPU. It does not where any rank sees a GPU: on all
/// of them or on none.
bool computes_on_cpu(DeviceKind kind, Communicator& communicator) {
  if (kind != DeviceKind::automatic) return kind == DeviceKind::cpu;
  const std::int64_t mine = usable_gpus();
  const std::vector<std::int64_t> all = all_gather_values(communicator, {&mine, 1});
  if (std::ranges::any_of(all, [](std::int64_t gpus) { return gpus > 0; })) return false;
  for (const std::string& problem : all_gather_text(communicator, gpu_problem())) {
    if (problem.empty()) continue;
    log_warning("computing on the CPU: {}", problem);
    break;
  }
  return true;
}

}  // namespace

AnyContext open_run_device(const RunConfig& config, const Machine& machine,
                           const RankTopology& topology, Communicator& communicator) {
  check_same_facts(
      communicator,
      std::vector<DeviceFact>{
          {"Tandem's version", tandem_version(), "start every rank with the same program"},
          {"train.device", text_of(config.device), "give every rank the same run file"}});
  if (!computes_on_cpu(config.device, communicator)) {
    AnyContext context = open_rank_gpu(communicator);
    check_same_facts(communicator, device_facts(context));
    const std::string mixed = mixed_models(communicator, device_model(context));
    if (!mixed.empty()) log_warning("{}", mixed);
    return context;
  }
  if (config.precision != Precision::fp32) {
    input_error(
        "train.precision is {}, but this run computes on the CPU, which has fp32 alone; run "
        "it where a GPU is, or set train.precision = \"fp32\"",
        name_of(config.precision));
  }
  // Threads that wait for one another do little else where they take turns on a core.
  constexpr int threads_a_core = 8;
  if (config.threads > threads_a_core * machine.cores) {
    input_error(
        "train.threads is {}, and this host has {} core{}: set {} or fewer, or leave it out",
        config.threads, machine.cores, machine.cores == 1 ? "" : "s",
        threads_a_core * machine.cores);
  }
  const int cores = default_threads(machine, topology.local_size());
  if (config.threads > cores && communicator.rank() == 0) {
    log_warning("train.threads is {}, and a rank's share of this host is {} core{}: that is slower",
                config.threads, cores, cores == 1 ? "" : "s");
  }
  return AnyContext(std::in_place_type<CpuContext>, config.threads > 0 ? config.threads : cores);
}

}  // namespace tandem
