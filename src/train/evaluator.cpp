#include "train/evaluator.h"

#include <array>
#include <chrono>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "data/evaluation_sampler.h"
#include "device/trace_range.h"
#include "parallel/gather_text.h"

namespace tandem {

Evaluator::Evaluator(const Dataset& dataset, const Transform& transform, const Graph& graph,
                     ParameterStore& store, AnyContext& context, Communicator& communicator,
                     std::int64_t batch, int workers, bool skip_bad, Precision precision)
    : dataset_(dataset),
      transform_(transform),
      communicator_(communicator),
      plan_(graph, store, context,
            {.batch = batch,
             .precision = precision,
             .after_layer = [&communicator] { communicator.still_working(); }}),
      device_batch_(
          context,
          with_batch(Shape{1, graph.input()[1], graph.input()[2], graph.input()[3]}, batch),
          precision),
      workers_(workers),
      skip_bad_(skip_bad) {}

Evaluation Evaluator::run() {
  const std::optional<Evaluation> result = run_unless([] { return false; });
  TANDEM_CHECK(result.has_value(), "an evaluation that nobody stops ended early");
  return *result;
}

std::optional<LossSums> Evaluator::run_share(const std::function<bool()>& stop) {
  EvaluationSampler sampler({.size = dataset_.size(),
                             .batch = plan_.batch(),
                             .world = communicator_.size(),
                             .rank = communicator_.rank()});
  DataLoader loader(dataset_, transform_, evaluation_batches(sampler),
                    {.batch = static_cast<int>(plan_.batch()),
                     .workers = workers_,
                     .on_bad_sample = skip_bad_ ? OnBadSample::drop : OnBadSample::fail,
                     .while_waiting = [this] { communicator_.still_working(); }});
  bad_.clear();
  LossSums mine;
  while (!stop()) {
    const Batch* batch = loader.next();
    if (batch == nullptr) return mine;
    bad_.insert(bad_.end(), batch->bad.begin(), batch->bad.end());
    if (batch->valid == 0) continue;
    const DeviceBatch::View view = device_batch_.put(*batch);
    mine += plan_.forward(view.images, {view.targets.labels}, batch->valid);
  }
  return std::nullopt;
}

std::optional<Evaluation> Evaluator::run_unless(const std::function<bool()>& stop) {
  const TraceRange range("evaluation");
  const auto start = std::chrono::steady_clock::now();
  const std::optional<LossSums> mine = run_share(stop);
  const LossSums all = sum_over_ranks(communicator_, mine.value_or(LossSums{}));
  const std::array<std::int64_t, 2> own{static_cast<std::int64_t>(bad_.size()), mine ? 0 : 1};
  const std::vector<std::int64_t> counts = all_gather_values(communicator_, own);
  std::int64_t skipped = 0;
  std::int64_t stopped = 0;
  for (std::size_t i = 0; i < counts.size(); i += own.size()) {
    skipped += counts[i];
    stopped += counts[i + 1];
  }
  if (stopped > 0) return std::nullopt;
  TANDEM_CHECK(all.samples + skipped == dataset_.size(), "{} of {} samples were evaluated",
               all.samples + skipped, dataset_.size());
  if (all.samples == 0) {
    input_error("not one of the {} test samples could be read; run tandem data verify",
                dataset_.size());
  }
  const auto count = static_cast<double>(all.samples);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return Evaluation{.loss = all.loss / count,
                    .top1 = static_cast<double>(all.top1) / count,
                    .top5 = static_cast<double>(all.top5) / count,
                    .samples = all.samples,
                    .skipped = skipped,
                    .seconds = elapsed.count()};
}

LossSums sum_over_ranks(Communicator& communicator, const LossSums& mine) {
  // Gathered as bytes and added in rank order: doubles stay doubles and every rank gets the same.
  static_assert(std::is_trivially_copyable_v<LossSums>);
  LossSums own = mine;
  std::vector<LossSums> all(static_cast<std::size_t>(communicator.size()));
  const auto bytes = static_cast<std::int64_t>(sizeof(LossSums));
  communicator.all_gather(Tensor(&own, {bytes}, DType::u8),
                          Tensor(all.data(), {bytes * communicator.size()}, DType::u8));
  LossSums total;
  for (const LossSums& sums : all) total += sums;
  return total;
}

}  // namespace tandem
