#include "train/evaluation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/heartbeat.h"
#include "base/log.h"
#include "data/fingerprint.h"
#include "device/machine.h"
#include "device/open_context.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "parallel/announced_work.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "parallel/placement/rank_topology.h"
#include "parallel/replica_check.h"
#include "tensor/host_tensor.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_weights.h"
#include "train/checkpoints/safetensors.h"
#include "train/fault_places.h"
#include "train/file_patience.h"
#include "train/record/progress.h"
#include "train/run_device.h"

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

Graph build_model(const RunConfig& config, const Dataset& dataset) {
  return fuse(load_model(find_model(config.model), {.classes = dataset.classes(),
                                                    .channels = config.data.transform.channels,
                                                    .size = config.data.transform.size}));
}

std::unique_ptr<Dataset> open_data(const RunConfig& config, Communicator& communicator) {
  std::unique_ptr<Dataset> dataset;
  run_announced(communicator, data_patience(config.data, communicator),
                [&] { dataset = open_test_dataset(config.data); });
  return dataset;
}

/// One evaluation, in the order in which its parts are made.
class EvaluationRun {
 public:
  EvaluationRun(const RunConfig& config, Communicator& communicator)
      : config_(config),
        communicator_(communicator),
        heartbeat_(config.timeout_seconds, communicator.rank(), start_patience()),
        topology_(RankTopology::gather(communicator)),
        context_(open_run_device(config, read_machine(), topology_, communicator)),
        places_(RankTopology::gather(communicator, this_place(device_uuid(context_)))),
        dataset_(open_data(config, communicator)),
        transform_(make_transform(config.data, false)),
        graph_(build_model(config, *dataset_)),
        store_(graph_, context_, false, {}, config.precision) {}

  Evaluation run(const std::filesystem::path& weights) {
    try {
      load(weights);
      return evaluate();
    } catch (const Error&) {
      rethrow_with_places(places_, [] { return FaultNotes{}; });
    }
  }

 private:
  void load(const std::filesystem::path& weights) {
    // Only rank 0 needs the file, and all ranks evaluate the same weights.
    const std::vector<PlanEntry> agreed{
        {.name = fmt::format("config of hash {:016x}", hash_text(config_.text))},
        {.name = fmt::format("test samples of fingerprint {:016x}",
                             fingerprint_of(*dataset_).samples)}};
    check_same_plan(communicator_, agreed);
    if (communicator_.rank() == 0) {
      run_announced(communicator_, run_patience(config_.checkpoint_timeout_seconds, communicator_),
                    [&] { read(weights); });
    }
    broadcast_store(communicator_, store_);
    heartbeat_.begin_phase();
  }

  void read(const std::filesystem::path& weights) {
    const SafetensorsFile file(weights);
    load_weights(file, store_);
    // Only that: the same classes may well have names of another language.
    if (has_other_classes(file, fingerprint_of_classes(*dataset_))) {
      log_warning("{} was trained on classes of other names than the test set's", weights.string());
    }
  }

  Evaluation evaluate() {
    constexpr std::int64_t default_batch = 64;
    const std::int64_t batch = config_.eval_batch > 0 ? config_.eval_batch : default_batch;
    evaluator_.emplace(
        *dataset_, transform_, graph_, store_, context_, communicator_,
        EvaluatorOptions{.batch = evaluation_batch(batch, dataset_->size(), communicator_.size()),
                         .loading = evaluation_loading(config_.data, communicator_),
                         .precision = config_.precision});
    return evaluated();
  }

  /// Rank 0 tells meanwhile how far it is.
  Evaluation evaluated() {
    if (communicator_.rank() != 0) return evaluator_->run();
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    Progress progress;
    return evaluator_->run([&](std::int64_t done) {
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      progress.update(CountState{.what = "evaluated",
                                 .done = done,
                                 .total = dataset_->size(),
                                 .seconds = elapsed.count()});
    });
  }

  const RunConfig& config_;
  Communicator& communicator_;
  HeartbeatWatch heartbeat_;
  RankTopology topology_;
  AnyContext context_;
  RankTopology places_;  // with the ranks' GPUs
  std::unique_ptr<Dataset> dataset_;
  Transform transform_;
  Graph graph_;
  ParameterStore store_;
  std::optional<Evaluator> evaluator_;
};

}  // namespace

Evaluation evaluate_weights(const RunConfig& config, const std::filesystem::path& weights,
                            Communicator& communicator) {
  communicator.watch_processes();
  return EvaluationRun(config, communicator).run(weights);
}

}  // namespace tandem
