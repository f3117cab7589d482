#include "train/evaluation_run.h"

#include <algorithm>

#include "base/error.h"
#include "device/machine.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "parallel/rank_topology.h"
#include "train/model_weights.h"
#include "train/safetensors.h"

namespace tandem {

Evaluation evaluate_weights(const RunConfig& config, const std::filesystem::path& weights,
                            Communicator& communicator) {
  constexpr std::int64_t default_batch = 64;
  const RankTopology topology = RankTopology::gather(communicator);
  AnyContext context(CpuContext(config.threads > 0
                                    ? config.threads
                                    : default_threads(read_machine(), topology.local_size())));
  const std::unique_ptr<Dataset> dataset = open_test_dataset(config.data);
  const Transform transform = make_transform(config.data, false);
  const Graph graph =
      fuse(load_model(find_model(config.model), {.classes = dataset->classes(),
                                                 .channels = config.data.transform.channels,
                                                 .size = config.data.transform.size}));
  ParameterStore store(graph, context, false);
  load_weights(SafetensorsFile(weights), store);
  const std::int64_t batch = config.eval_batch > 0 ? config.eval_batch : default_batch;
  Evaluator evaluator(*dataset, transform, graph, store, context, communicator,
                      std::min(batch, dataset->size()), config.data.workers);
  return evaluator.run();
}

}  // namespace tandem
