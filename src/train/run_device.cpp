#include "train/run_device.h"

#include "base/error.h"
#include "parallel/rank_devices.h"

namespace tandem {

AnyContext open_run_device(const RunConfig& config, const Machine& machine,
                           const RankTopology& topology, Communicator& communicator) {
  if (!means_cpu(config.device)) {
    AnyContext context = open_rank_gpu(communicator);
    check_same_facts(communicator, device_facts(context));
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
