#include "train/evaluator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "data/evaluation_sampler.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "device/pinned_memory.h"
#include "device/trace_range.h"
#include "parallel/gather_text.h"
#include "parallel/shared_choices.h"
#include "train/step/device_input.h"
#include "train/step/memory_share.h"
#include "train/step/too_large_step.h"

namespace tandem {

std::int64_t evaluation_batch(std::int64_t wanted, std::int64_t samples, int ranks) {
  return std::clamp<std::int64_t>((samples + ranks - 1) / ranks, 1, wanted);
}

Evaluator::Evaluator(const Dataset& dataset, const Transform& transform, const Graph& graph,
                     ParameterStore& store, AnyContext& context, Communicator& communicator,
                     const EvaluatorOptions& options)
    : dataset_(dataset),
      transform_(transform),
      context_(context),
      communicator_(communicator),
      images_(nullptr, with_batch(graph.input(), options.batch),
              activation_dtype(options.precision)),
      image_memory_(make_image_memory(options)),
      plan_(make_plan(graph, store,
                      {.batch = options.batch,
                       .precision = options.precision,
                       .spare = options.spare.subspan(spare_taken_),
                       .after_layer = [&communicator] { communicator.report_progress(); }})),
      loader_(dataset, transform,
              evaluation_batches(EvaluationSampler({.size = dataset.size(),
                                                    .batch = options.batch,
                                                    .world = communicator.size(),
                                                    .rank = communicator.rank()})),
              loader_options(options.loading)),
      pass_(make_pass()) {}

Arena Evaluator::make_image_memory(const EvaluatorOptions& options) {
  if (is_host(context_)) return {};
  if (images_.bytes() > options.spare.size()) {
    return {context_, images_.bytes(), "an evaluation's images"};
  }
  spare_taken_ = std::min(Arena::align(images_.bytes()), options.spare.size());
  return Arena::borrowed(options.spare.data(), images_.bytes());
}

std::unique_ptr<StepPlan> Evaluator::make_plan(const Graph& graph, ParameterStore& store,
                                               StepPlanOptions options) {
  const std::optional<MemoryShare> share = measure_memory_share(communicator_, context_);
  if (share) options.room = share->bytes;
  try {
    std::unique_ptr<StepPlan> plan;
    choose_together(communicator_, kernel_choices(context_),
                    [&] { plan = std::make_unique<StepPlan>(graph, store, context_, options); });
    return plan;
  } catch (const OutOfMemory& error) {
    std::optional<DeviceMemory> memory = device_memory(context_);
    if (!memory || !share) throw;
    // Since then the other ranks have allocated too.
    memory->free = share->bytes;
    throw InputError(too_large_step_text({.what = "an evaluation step",
                                          .batch = options.batch,
                                          .activations = error.bytes(),
                                          .memory = *memory,
                                          .ranks = share->ranks},
                                         "set train.eval_batch"));
  }
}

std::unique_ptr<EvaluationPass> Evaluator::make_pass() {
  images_ = Tensor(image_memory_.data(), images_.shape(), images_.dtype());
  const EvaluationParts parts{.plan = *plan_,
                              .context = context_,
                              .communicator = communicator_,
                              .raw = {RawBatchLayout(transform_.pixel_format(dataset_.extents()),
                                                     static_cast<int>(plan_->batch()), false),
                                      InputSpec(transform_)},
                              .images = images_};
  return std::visit([&](auto& device) { return make_evaluation_pass(device, parts); }, context_);
}

Evaluation Evaluator::run(const Watch& watch) {
  const std::optional<Evaluation> result = run_unless([&](std::int64_t done) {
    if (watch) watch(done);
    return false;
  });
  TANDEM_CHECK(result.has_value(), "an evaluation that nobody stops ended early");
  return *result;
}

DataLoader::Options Evaluator::loader_options(const EvaluationLoading& loading) {
  return {.batch = static_cast<int>(plan_->batch()),
          .workers = loading.workers,
          .on_bad_sample = loading.skip_bad ? OnBadSample::drop : OnBadSample::fail,
          .raw = !is_host(context_),
          .allocate = pinned_allocator(context_),
          .hold = is_host(context_) ? 1 : DeviceInput::hold(1),
          .while_waiting = [this] { communicator_.report_progress(); },
          .timeout_seconds = loading.timeout_seconds};
}

std::optional<LossSums> Evaluator::run_share(const Stop& stop) {
  static_cast<void>(
      pass_->finish());  // what a run that threw has left, which reads the loader's memory
  loader_.start(0);
  bad_.clear();
  LossSums mine;
  std::int64_t taken = 0;
  while (!stop(std::min(taken * communicator_.size(), dataset_.size()))) {
    const Batch* batch = loader_.next();
    if (batch == nullptr) {
      mine += pass_->finish();
      loader_.stop();
      return mine;
    }
    bad_.insert(bad_.end(), batch->bad.begin(), batch->bad.end());
    taken += batch->valid + static_cast<std::int64_t>(batch->bad.size());
    // No batch may be under way for longer than the loader keeps it, also where it gives out others
    // that are not taken.
    mine += batch->valid > 0 ? pass_->take(*batch) : pass_->finish();
  }
  // Nothing of it may be left for the next run, nor read weights that training changes.
  static_cast<void>(pass_->finish());
  loader_.stop();
  return std::nullopt;
}

std::optional<Evaluation> Evaluator::run_unless(const Stop& stop) {
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
