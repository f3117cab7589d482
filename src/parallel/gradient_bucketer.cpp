#include "parallel/gradient_bucketer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/trace_range.h"

namespace tandem {
namespace {

constexpr auto element_bytes = static_cast<std::int64_t>(size_of(DType::f32));

std::int64_t end_of(const ParameterSlice& slice) { return slice.offset + slice.elements; }

/// Where in the scratch each bucket's begins, and the elements of the whole.
struct ScratchPlan {
  std::vector<std::int64_t> at;
  std::int64_t elements = 0;
};

ScratchPlan plan_scratch(const Communicator& communicator, std::span<const Bucket> buckets) {
  ScratchPlan plan;
  for (const Bucket& bucket : buckets) {
    const std::int64_t needed = communicator.bf16_scratch(bucket.elements);
    // A device reduces one bucket after the other, so that all of them can use the same.
    const std::int64_t at = communicator.is_host() ? plan.elements : 0;
    plan.at.push_back(at);
    plan.elements = std::max(plan.elements, at + needed);
  }
  return plan;
}

}  // namespace

std::vector<Bucket> cut_buckets(std::span<const ParameterSlice> slices,
                                const BucketOptions& options) {
  TANDEM_CHECK(options.first_bytes > 0 && options.bytes > 0, "bucket sizes {} and {} bytes",
               options.first_bytes, options.bytes);
  std::vector<Bucket> buckets;
  const auto limit_of_last = [&] {
    if (buckets.size() == 1) return options.first_bytes;
    if (!options.taper) return options.bytes;
    const std::int64_t left = (end_of(slices.back()) - buckets.back().offset) * element_bytes;
    return std::min(options.bytes, std::max(options.first_bytes, left / 2));
  };
  std::int64_t previous_end = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const ParameterSlice& slice = slices[i];
    TANDEM_CHECK(slice.elements >= 0 && slice.offset >= previous_end,
                 "gradient slice {} ({} elements at {}) overlaps the one before it, which ends at "
                 "{}; slices must ascend",
                 slice.name, slice.elements, slice.offset, previous_end);
    previous_end = end_of(slice);
    if (!buckets.empty() && i != options.apart &&
        (end_of(slice) - buckets.back().offset) * element_bytes <= limit_of_last()) {
      buckets.back().last = i + 1;
      buckets.back().elements = end_of(slice) - buckets.back().offset;
    } else {
      buckets.push_back({i, i + 1, slice.offset, slice.elements});
    }
  }
  return buckets;
}

std::int64_t bf16_scratch(const Communicator& communicator, std::span<const Bucket> buckets) {
  return plan_scratch(communicator, buckets).elements;
}

GradientBucketer::GradientBucketer(Communicator& communicator, const Tensor& gradients,
                                   std::vector<ParameterSlice> slices, std::vector<Bucket> buckets,
                                   const Tensor& scratch)
    : communicator_(communicator),
      gradients_(gradients),
      slices_(std::move(slices)),
      buckets_(std::move(buckets)),
      sums_(gradients.defined() ? communicator.attach(gradients) : Tensor()),
      scratch_(scratch),
      ready_(slices_.size()),
      pending_(buckets_.size()),
      stats_(no_stats(communicator)) {
  TANDEM_CHECK(gradients.dtype() == DType::f32, "gradients are {}, not f32",
               name_of(gradients.dtype()));
  TANDEM_CHECK(gradients.defined() || communicator.size() == 1, "{} ranks without gradients",
               communicator.size());
  TANDEM_CHECK(
      slices_.empty() || !gradients.defined() || end_of(slices_.back()) <= gradients.elements(),
      "gradient slice {} ends at {}, the arena at {}", slices_.back().name, end_of(slices_.back()),
      gradients.elements());
  if (scratch_.defined()) {
    ScratchPlan plan = plan_scratch(communicator, buckets_);
    TANDEM_CHECK(scratch_.elements() >= plan.elements, "{} elements of scratch where {} are needed",
                 scratch_.elements(), plan.elements);
    scratch_at_ = std::move(plan.at);
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    bucket_of_.insert(bucket_of_.end(), buckets_[b].last - buckets_[b].first, b);
    labels_.push_back(fmt::format("gradient bucket {} of {}", b + 1, buckets_.size()));
  }
  TANDEM_CHECK(bucket_of_.size() == slices_.size(), "buckets of {} slices for {}",
               bucket_of_.size(), slices_.size());
  requests_.reserve(buckets_.size());
}

void GradientBucketer::update_shares(PeerDevices& peers, std::function<void(std::size_t)> update) {
  TANDEM_CHECK(!in_step_ && !scratch_.defined(), "shares of a step under way, or of bf16");
  peers_ = &peers;
  update_ = std::move(update);
}

void GradientBucketer::update_each(std::function<void(std::size_t)> update) {
  TANDEM_CHECK(!in_step_, "buckets of a step under way are each updated");
  TANDEM_CHECK(communicator_.size() == 1, "buckets of {} ranks are each updated",
               communicator_.size());
  update_ = std::move(update);
}

GradientBucketer::~GradientBucketer() {
  if (gradients_.defined()) communicator_.detach(gradients_);
}

void GradientBucketer::begin_step() {
  TANDEM_CHECK(!in_step_, "a reduction step begins before the last one was finished");
  std::fill(ready_.begin(), ready_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    pending_[b] = buckets_[b].last - buckets_[b].first;
  }
  next_ = 0;
  oldest_ = 0;
  requests_.clear();
  in_step_ = true;
}

void GradientBucketer::ready(std::size_t i) {
  TANDEM_CHECK(i < slices_.size(), "gradient {} of {}", i, slices_.size());
  TANDEM_CHECK(in_step_, "the gradient of {} is ready outside of a reduction step",
               slices_[i].name);
  TANDEM_CHECK(!ready_[i], "the gradient of {} is ready twice in one step", slices_[i].name);
  ready_[i] = true;
  --pending_[bucket_of_[i]];
  launch_complete_buckets();
}

void GradientBucketer::launch_complete_buckets() {
  for (; next_ < buckets_.size() && pending_[next_] == 0; ++next_) {
    if (communicator_.size() == 1) {
      if (update_ && peers_ == nullptr) update_(next_);
      continue;
    }
    const TraceRange range(labels_[next_]);
    if (std::unique_ptr<Request> request = launch(next_)) requests_.push_back(std::move(request));
  }
}

std::unique_ptr<Request> GradientBucketer::launch(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  const Tensor message(gradients_.data<float>() + bucket.offset, {bucket.elements});
  ++stats_.messages;
  if (peers_ != nullptr) {
    stats_.bytes += static_cast<std::int64_t>(message.bytes());
    peers_->sum_share(message, labels_[b], [&] { update_(b); });
    return nullptr;
  }
  if (!scratch_.defined()) {
    stats_.bytes += static_cast<std::int64_t>(message.bytes());
    return communicator_.sum_attached_async(message, labels_[b]);
  }
  stats_.bytes += bucket.elements * static_cast<std::int64_t>(size_of(DType::bf16));
  const Tensor scratch(static_cast<std::byte*>(scratch_.raw()) +
                           static_cast<std::size_t>(scratch_at_[b]) * size_of(DType::bf16),
                       {communicator_.bf16_scratch(bucket.elements)}, DType::bf16);
  return communicator_.sum_attached_async(message, labels_[b], scratch);
}

void GradientBucketer::progress() {
  while (oldest_ < requests_.size() && requests_[oldest_]->test()) ++oldest_;
}

void GradientBucketer::check_all_ready() const {
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing == ready_.end()) return;
  const auto count = std::count(ready_.begin(), ready_.end(), false);
  throw Error(fmt::format(
      "the gradient of {} was never ready in this step ({} of {} were not); a parameter that "
      "backward does not reach must be left out of the reduction",
      slices_[static_cast<std::size_t>(missing - ready_.begin())].name, count, slices_.size()));
}

void GradientBucketer::finish() {
  TANDEM_CHECK(in_step_, "a reduction step is finished that was not begun");
  check_all_ready();
  const auto start = std::chrono::steady_clock::now();
  if (peers_ != nullptr) requests_.push_back(peers_->finish_shares());
  for (; oldest_ < requests_.size(); ++oldest_) requests_[oldest_]->wait();
  if (stats_.exposed_seconds) {
    *stats_.exposed_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  requests_.clear();
  in_step_ = false;
}

ReductionStats GradientBucketer::no_stats(const Communicator& communicator) {
  ReductionStats stats;
  if (communicator.is_host()) stats.exposed_seconds = 0.0;
  return stats;
}

ReductionStats GradientBucketer::take_stats() {
  return std::exchange(stats_, no_stats(communicator_));
}

}  // namespace tandem
