#include "data/data_loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"

namespace tandem {
namespace {

constexpr std::align_val_t alignment{64};

struct FreeAligned {
  void operator()(float* memory) const { ::operator delete[](memory, alignment); }
};

}  // namespace

BatchSource training_batches(DistributedSampler sampler) {
  return [sampler =
              std::move(sampler)](std::int64_t ordinal) mutable -> std::optional<BatchRequest> {
    const std::int64_t step = ordinal / sampler.accumulate();
    const std::int64_t epoch = step / sampler.steps_per_epoch();
    return BatchRequest{epoch, sampler.indices(epoch, step % sampler.steps_per_epoch(),
                                               static_cast<int>(ordinal % sampler.accumulate()))};
  };
}

BatchSource evaluation_batches(EvaluationSampler sampler) {
  return [sampler](std::int64_t ordinal) -> std::optional<BatchRequest> {
    if (ordinal >= sampler.batches()) return std::nullopt;
    return BatchRequest{0, sampler.indices(ordinal)};
  };
}

struct DataLoader::Slot {
  Batch batch;
  std::unique_ptr<float[], FreeAligned> images;
  std::vector<std::int32_t> labels;
  std::vector<std::string> reasons;  ///< a position whose sample could not be read has one
  // Guarded by the loader's mutex:
  int unfinished = 0;  ///< tasks
  std::exception_ptr error;
  std::size_t error_at = 0;  ///< position in the batch
};

DataLoader::DataLoader(const Dataset& dataset, const Transform& transform, BatchSource source,
                       const Options& options)
    : dataset_(dataset), transform_(transform), source_(std::move(source)), options_(options) {
  TANDEM_CHECK(options.batch >= 1 && options.workers >= 1 && options.prefetch >= 1,
               "a loader with batch {}, {} workers, {} batches ahead", options.batch,
               options.workers, options.prefetch);
  const auto batch = static_cast<std::size_t>(options.batch);
  const std::size_t floats = batch * static_cast<std::size_t>(transform.output_elements());
  const TransformOptions& output = transform.options();
  for (int i = 0; i <= options.prefetch; ++i) {  // one more: the batch in use
    auto slot = std::make_unique<Slot>();
    slot->images.reset(static_cast<float*>(::operator new[](floats * sizeof(float), alignment)));
    slot->labels.resize(batch);
    slot->reasons.resize(batch);
    slot->batch.images =
        Tensor(slot->images.get(), {options.batch, output.size, output.size, output.channels});
    slot->batch.labels = Tensor(slot->labels.data(), {options.batch}, DType::i32);
    slots_.push_back(std::move(slot));
  }
}

DataLoader::~DataLoader() { stop(); }

void DataLoader::stop() {
  stopping_ = true;
  pool_.reset();  // waits for running tasks, which see the flag after the sample they are at
  stopping_ = false;
}

DataLoader::Slot& DataLoader::slot_of(std::int64_t ordinal) {
  return *slots_[static_cast<std::size_t>(ordinal) % slots_.size()];
}

void DataLoader::start(std::int64_t ordinal) {
  TANDEM_CHECK(ordinal >= 0, "no batch {}", ordinal);
  stop();
  head_ = requested_ = ordinal;
  exhausted_ = false;
  pool_ = std::make_unique<ThreadPool>(options_.workers);
  prefetch();
}

void DataLoader::prefetch() {
  while (!exhausted_ && requested_ < head_ + static_cast<std::int64_t>(slots_.size())) {
    std::optional<BatchRequest> request = source_(requested_);
    if (!request) {
      exhausted_ = true;
      return;
    }
    submit(slot_of(requested_), std::move(*request), requested_);
    ++requested_;
  }
}

void DataLoader::submit(Slot& slot, BatchRequest request, std::int64_t ordinal) {
  const std::size_t count = request.indices.size();
  TANDEM_CHECK(count <= slot.labels.size(), "{} samples for a batch of {}", count,
               slot.labels.size());
  slot.batch.valid = static_cast<int>(count);
  slot.batch.indices = std::move(request.indices);
  slot.batch.epoch = request.epoch;
  slot.batch.ordinal = ordinal;
  slot.batch.bad.clear();
  std::fill(slot.reasons.begin(), slot.reasons.end(), std::string());
  const auto elements = static_cast<std::size_t>(transform_.output_elements());
  std::fill(slot.images.get() + count * elements, slot.images.get() + slot.labels.size() * elements,
            0.0F);
  std::fill(slot.labels.begin() + static_cast<std::ptrdiff_t>(count), slot.labels.end(), 0);

  // One share a thread, so that the batch whose turn is next is there as early as can be.
  const auto workers = static_cast<std::size_t>(options_.workers);
  const std::size_t share = std::max<std::size_t>(1, (count + workers - 1) / workers);
  {
    const std::scoped_lock lock(mutex_);
    slot.unfinished = static_cast<int>((count + share - 1) / share);
    slot.error = nullptr;
  }
  for (std::size_t begin = 0; begin < count; begin += share) {
    const std::size_t end = std::min(count, begin + share);
    pool_->submit([this, &slot, begin, end] { decode(slot, begin, end); });
  }
}

void DataLoader::decode(Slot& slot, std::size_t begin, std::size_t end) {
  std::exception_ptr error;
  std::size_t at = begin;
  try {
    for (; at < end && !stopping_; ++at) decode_sample(slot, at);
  } catch (...) {
    error = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  if (error && (!slot.error || at < slot.error_at)) {
    slot.error = error;
    slot.error_at = at;
  }
  // Told under the lock: the loader may be gone as soon as it sees the last task's end.
  if (--slot.unfinished == 0) done_.notify_one();
}

void DataLoader::load_into(Slot& slot, std::size_t at, std::int64_t index) {
  const auto elements = static_cast<std::size_t>(transform_.output_elements());
  slot.labels[at] = dataset_.label(index);
  RandomStream random = augmentation_stream(options_.seed, slot.batch.epoch, index);
  transform_.apply(*dataset_.open(index), random, slot.images.get() + at * elements);
}

void DataLoader::decode_sample(Slot& slot, std::size_t at) {
  try {
    load_into(slot, at, slot.batch.indices[at]);
  } catch (const InputError& error) {
    if (options_.on_bad_sample == OnBadSample::fail) throw;
    slot.reasons[at] = error.what();
    if (options_.on_bad_sample == OnBadSample::replace) replace_sample(slot, at);
  }
}

void DataLoader::replace_sample(Slot& slot, std::size_t at) {
  constexpr int tries = 100;
  const std::int64_t bad = slot.batch.indices[at];
  const std::uint64_t key = mix64(options_.seed ^ mix64(hash_text("replacement")));
  RandomStream random(mix64(key + static_cast<std::uint64_t>(slot.batch.epoch)),
                      static_cast<std::uint64_t>(bad));
  for (int i = 0; i < tries; ++i) {
    const auto index =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(dataset_.size())));
    try {
      load_into(slot, at, index);
      return;
    } catch (const InputError&) {
      continue;  // it is counted when its own turn comes
    }
  }
  input_error("{}; nor could {} samples drawn in its place: too much of the data is broken to skip",
              slot.reasons[at], tries);
}

/// Lists the bad samples and, where they are to be dropped, closes the gaps that they leave.
void DataLoader::settle_bad(Slot& slot) const {
  Batch& batch = slot.batch;
  const auto count = static_cast<std::size_t>(batch.valid);
  const auto elements = static_cast<std::size_t>(transform_.output_elements());
  const std::vector<std::int64_t> asked = batch.indices;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at) {
    const bool bad = !slot.reasons[at].empty();
    if (bad) batch.bad.push_back({asked[at], std::move(slot.reasons[at])});
    if (bad && options_.on_bad_sample == OnBadSample::drop) continue;
    if (kept != at) {
      std::copy_n(slot.images.get() + at * elements, elements, slot.images.get() + kept * elements);
      slot.labels[kept] = slot.labels[at];
      batch.indices[kept] = asked[at];
    }
    ++kept;
  }
  std::fill(slot.images.get() + kept * elements, slot.images.get() + count * elements, 0.0F);
  std::fill(slot.labels.begin() + static_cast<std::ptrdiff_t>(kept),
            slot.labels.begin() + static_cast<std::ptrdiff_t>(count), 0);
  batch.indices.resize(kept);
  batch.valid = static_cast<int>(kept);
}

const Batch* DataLoader::next() {
  if (!pool_) start(0);
  prefetch();
  if (head_ == requested_) return nullptr;
  Slot& slot = slot_of(head_);
  {
    std::unique_lock lock(mutex_);
    if (slot.unfinished > 0) {
      const auto begin = std::chrono::steady_clock::now();
      done_.wait(lock, [&slot] { return slot.unfinished == 0; });
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      wait_seconds_ += waited.count();
    }
    if (slot.error) std::rethrow_exception(slot.error);
  }
  settle_bad(slot);
  ++head_;
  return &slot.batch;
}

}  // namespace tandem
