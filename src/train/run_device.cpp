#include "train/run_device.h"

#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/rank_devices.h"
#include "train/environment.h"

namespace tandem {

AnyContext open_run_device(const RunConfig& config, const Machine& machine,
                           const RankTopology& topology, Communicator& communicator) {
  const bool on_cpu = means_cpu(config.device);
  check_same_facts(communicator,
                   std::vector<DeviceFact>{{"Tandem's version", tandem_version(),
                                            "start every rank with the same program"},
                                           {"the device", on_cpu ? "the CPU" : "a GPU",
                                            "look at nvidia-smi on those hosts, and whether Tandem "
                                            "was built with CUDA there, or set "
                                            "train.device = \"cpu\""}});
  if (!on_cpu) {
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
  return AnyContext(
      std::in_place_type<CpuContext>,
      config.threads > 0 ? config.threads : default_threads(machine, topology.local_size()));
}

}  // namespace tandem
