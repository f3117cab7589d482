#include "train/evaluation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/fingerprint.h"
#include "device/machine.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "parallel/announced_work.h"
#include "parallel/rank_topology.h"
#include "parallel/replica_check.h"
#include "tensor/host_tensor.h"
#include "train/checkpoint.h"
#include "train/model_weights.h"
#include "train/run_device.h"
#include "train/safetensors.h"

namespace tandem {
namespace {

void broadcast_store(Communicator& communicator, ParameterStore& store) {
  HostTensor values(store.context(), store.all_values());
  HostTensor buffers(store.context(), store.all_buffers());
  const std::vector<Tensor> state{values.tensor(), buffers.tensor()};
  broadcast_state(communicator, state);
  values.write_back();
  buffers.write_back();
  store.update_weights();
}

}  // namespace

Evaluation evaluate_weights(const RunConfig& config, const std::filesystem::path& weights,
                            Communicator& communicator) {
  constexpr std::int64_t default_batch = 64;
  const RankTopology topology = RankTopology::gather(communicator);
  AnyContext context = open_run_device(config, read_machine(), topology, communicator);
  std::unique_ptr<Dataset> dataset;
  run_announced(communicator, [&] { dataset = open_test_dataset(config.data); });
  const Transform transform = make_transform(config.data, false);
  const Graph graph =
      fuse(load_model(find_model(config.model), {.classes = dataset->classes(),
                                                 .channels = config.data.transform.channels,
                                                 .size = config.data.transform.size}));
  ParameterStore store(graph, context, false, {}, config.precision);
  // Only rank 0 needs the file, and all ranks evaluate the same weights.
  const std::vector<PlanEntry> agreed{
      {.name = fmt::format("config of hash {:016x}", hash_text(config.text))},
      {.name =
           fmt::format("test samples of fingerprint {:016x}", fingerprint_of(*dataset).samples)}};
  check_same_plan(communicator, agreed);
  if (communicator.rank() == 0) {
    run_announced(communicator, [&] {
      const SafetensorsFile file(weights);
      load_weights(file, store);
      // Only that: the same classes may well have names of another language.
      if (has_other_classes(file, fingerprint_of_classes(*dataset))) {
        log_warning("{} was trained on classes of other names than the test set's",
                    weights.string());
      }
    });
  }
  broadcast_store(communicator, store);
  const std::int64_t batch = config.eval_batch > 0 ? config.eval_batch : default_batch;
  Evaluator evaluator(*dataset, transform, graph, store, context, communicator,
                      std::min(batch, dataset->size()), config.data.workers,
                      config.data.skip_bad_samples, config.precision);
  return evaluator.run();
}

}  // namespace tandem
