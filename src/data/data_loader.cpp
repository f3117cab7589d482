#include "data/data_loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/heartbeat.h"
#include "base/process_place.h"
#include "base/standstill.h"
#include "data/data_timeout.h"

namespace tandem {
BatchSource training_batches(DistributedSampler sampler) {
  return
      [sampler = std::move(sampler)](std::int64_t ordinal) mutable -> std::optional<BatchRequest> {
        const std::int64_t step = ordinal / sampler.accumulate();
        const std::int64_t epoch = step / sampler.steps_per_epoch();
        const std::int64_t step_in_epoch = step % sampler.steps_per_epoch();
        const auto micro = static_cast<int>(ordinal % sampler.accumulate());
        return BatchRequest{.epoch = epoch,
                            .indices = sampler.indices(epoch, step_in_epoch, micro),
                            .step = step_in_epoch,
                            .predecessor = sampler.predecessor(epoch, step_in_epoch, micro)};
      };
}

BatchSource evaluation_batches(EvaluationSampler sampler) {
  return [sampler](std::int64_t ordinal) -> std::optional<BatchRequest> {
    if (ordinal >= sampler.batches()) return std::nullopt;
    return BatchRequest{.indices = sampler.indices(ordinal)};
  };
}

struct DataLoader::Slot {
  Batch batch;
  std::unique_ptr<BatchBuffer> buffer;
  std::vector<std::string> reasons;     ///< a position whose sample could not be read has one
  std::vector<std::int64_t> asked;      ///< samples by position
  std::vector<std::atomic<bool>> read;  ///< by position
  Mix mix;
  // Guarded by the loader's mutex:
  int unfinished = 0;  ///< tasks
  std::exception_ptr error;
  std::size_t error_at = 0;  ///< position in the batch
};

DataLoader::DataLoader(const Dataset& dataset, const Transform& transform, BatchSource source,
                       const Options& options)
    : dataset_(dataset), transform_(transform), source_(std::move(source)), options_(options) {
  TANDEM_CHECK(
      options.batch >= 1 && options.workers >= 1 && options.prefetch >= 1 && options.hold >= 1,
      "a loader with batch {}, {} workers, {} batches ahead, {} held", options.batch,
      options.workers, options.prefetch, options.hold);
  TANDEM_CHECK(!options.mix.on() || options.on_bad_sample != OnBadSample::drop,
               "a loader that mixes samples and drops bad ones");
  if (!options_.allocate) options_.allocate = allocate_host;
  for (int i = 0; i < options.prefetch + options.hold; ++i) {
    auto slot = std::make_unique<Slot>();
    slot->buffer = make_buffer();
    slot->buffer->show_in(slot->batch);
    slot->reasons.resize(static_cast<std::size_t>(options.batch) + (options.mix.on() ? 1 : 0));
    slot->read = std::vector<std::atomic<bool>>(slot->reasons.size());
    slots_.push_back(std::move(slot));
  }
}

std::unique_ptr<BatchBuffer> DataLoader::make_buffer() const {
  const BatchBufferOptions wanted{.batch = options_.batch, .mixed = options_.mix.on()};
  if (!options_.raw) return make_float_buffer(transform_, wanted);
  return make_raw_buffer(transform_, transform_.pixel_format(dataset_.extents()), wanted,
                         options_.allocate);
}

RawBatchLayout DataLoader::raw_layout() const {
  TANDEM_CHECK(options_.raw, "the layout of raw batches from a loader of others");
  return {transform_.pixel_format(dataset_.extents()), options_.batch, options_.mix.on()};
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
  while (!exhausted_ && requested_ <= head_ + options_.prefetch) {
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
  const auto batch = static_cast<std::size_t>(options_.batch);
  TANDEM_CHECK(count <= batch, "{} samples for a batch of {}", count, batch);
  slot.asked = request.indices;
  if (options_.mix.on()) begin_mix(slot, request);
  slot.batch.valid = static_cast<int>(count);
  slot.batch.indices = std::move(request.indices);
  slot.batch.epoch = request.epoch;
  slot.batch.ordinal = ordinal;
  slot.batch.bad.clear();
  std::fill(slot.reasons.begin(), slot.reasons.end(), std::string());
  for (std::atomic<bool>& read : slot.read) read = false;
  slot.buffer->clear(count, batch);

  // One share a thread, so that the batch whose turn is next is there as early as can be.
  const std::size_t positions = slot.asked.size();
  const auto workers = static_cast<std::size_t>(options_.workers);
  const std::size_t share = std::max<std::size_t>(1, (positions + workers - 1) / workers);
  {
    const std::scoped_lock lock(mutex_);
    slot.unfinished = static_cast<int>((positions + share - 1) / share);
    slot.error = nullptr;
  }
  for (std::size_t begin = 0; begin < positions; begin += share) {
    const std::size_t end = std::min(positions, begin + share);
    pool_->submit([this, &slot, begin, end] { decode(slot, begin, end); });
  }
}

/// Draws the step's mix, and asks for the first sample's partner unless the batch has it: where the
/// global batch is this one alone.
void DataLoader::begin_mix(Slot& slot, const BatchRequest& request) const {
  TANDEM_CHECK(request.predecessor >= 0 && static_cast<int>(slot.asked.size()) == options_.batch,
               "a batch of {} samples, predecessor {}, cannot be mixed", slot.asked.size(),
               request.predecessor);
  RandomStream random = mix_stream(options_.seed, request.epoch, request.step);
  slot.mix = draw_mix(options_.mix, transform_.options().size, random);
  if (request.predecessor != slot.asked.back()) slot.asked.push_back(request.predecessor);
}

void DataLoader::decode(Slot& slot, std::size_t begin, std::size_t end) {
  std::exception_ptr error;
  std::size_t at = begin;
  try {
    for (; at < end && !stopping_; ++at) decode_sample(slot, at);
  } catch (...) {
    error = std::current_exception();
    for (std::size_t left = at; left < end; ++left) slot.read[left] = true;  // nobody is at these
  }
  std::unique_lock lock(mutex_);
  if (error && (!slot.error || at < slot.error_at)) {
    slot.error = error;
    slot.error_at = at;
  }
  if (options_.mix.on() && slot.unfinished == 1 && !slot.error && !stopping_) {
    // The last task: all pictures are there, and nobody else looks at the slot before it ends.
    lock.unlock();
    mix(slot);
    lock.lock();
  }
  // Told under the lock: the loader may be gone as soon as it sees the last task's end.
  if (--slot.unfinished == 0) done_.notify_one();
}

void DataLoader::mix(Slot& slot) const {
  const auto batch = static_cast<std::size_t>(options_.batch);
  if (slot.asked.size() == batch) slot.buffer->copy(batch - 1, batch);
  slot.buffer->mix(slot.mix);
}

void DataLoader::load_into(Slot& slot, std::size_t at, std::int64_t index) {
  ++begun_;
  RandomStream random = augmentation_stream(options_.seed, slot.batch.epoch, index);
  try {
    slot.buffer->load(at, dataset_.label(index), *dataset_.open(index), random);
  } catch (const ImageError& error) {
    input_error("{}: {}", dataset_.describe(index), error.what());
  }
}

void DataLoader::decode_sample(Slot& slot, std::size_t at) {
  try {
    load_into(slot, at, slot.asked[at]);
  } catch (const InputError& error) {
    if (options_.on_bad_sample == OnBadSample::fail) throw;
    slot.reasons[at] = error.what();
    if (options_.on_bad_sample == OnBadSample::replace) replace_sample(slot, at);
  }
  slot.read[at] = true;
}

void DataLoader::replace_sample(Slot& slot, std::size_t at) {
  constexpr int tries = 100;
  const std::int64_t bad = slot.asked[at];
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

/// Lists the bad samples and, where they are to be dropped, closes the gaps that they leave. A
/// partner from another batch is listed there.
void DataLoader::settle_bad(Slot& slot) const {
  Batch& batch = slot.batch;
  const auto count = static_cast<std::size_t>(batch.valid);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at) {
    const bool bad = !slot.reasons[at].empty();
    if (bad) batch.bad.push_back({slot.asked[at], std::move(slot.reasons[at])});
    if (bad && options_.on_bad_sample == OnBadSample::drop) continue;
    if (kept != at) {
      slot.buffer->copy(at, kept);
      batch.indices[kept] = slot.asked[at];
    }
    ++kept;
  }
  slot.buffer->clear(kept, count);
  batch.indices.resize(kept);
  batch.valid = static_cast<int>(kept);
}

const Batch* DataLoader::next() {
  heartbeat();
  if (!pool_) start(0);
  prefetch();
  if (head_ == requested_) return nullptr;
  Slot& slot = slot_of(head_);
  wait_for(slot);
  settle_bad(slot);
  ++head_;
  return &slot.batch;
}

void DataLoader::fail_to_read(const Slot& slot) const {
  try {
    if (slot.error) std::rethrow_exception(slot.error);
  } catch (const std::exception& error) {
    // What takes this loader down waits for the thread that hangs.
    leave_last_words_of_step(error.what(), std::chrono::milliseconds(0));
    throw;
  }
  const auto first = std::ranges::find_if(slot.read, [](const auto& read) { return !read; });
  const auto at = static_cast<std::size_t>(first - slot.read.begin());
  throw DataTimeout(fmt::format(
      "{}: waited {:g} s for it, in which no other sample was read either; look at the disk or the "
      "network that it lies on, or raise data.timeout_seconds",
      dataset_.describe(slot.asked.at(std::min(at, slot.asked.size() - 1))),
      options_.timeout_seconds));
}

void DataLoader::wait_for(const Slot& slot) {
  constexpr auto interval = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  if (slot.unfinished > 0) {
    const auto begin = Standstill::Clock::now();
    Standstill standstill(begin);
    std::int64_t before = begun_;
    while (!done_.wait_for(lock, interval, [&slot] { return slot.unfinished == 0; })) {
      lock.unlock();
      if (options_.while_waiting) options_.while_waiting();
      const std::int64_t now = begun_;
      const bool still = std::exchange(before, now) == now;
      const double seconds = standstill.look(still, Standstill::Clock::now()).count();
      const bool over = options_.timeout_seconds > 0.0 && seconds >= options_.timeout_seconds;
      lock.lock();
      if (over && slot.unfinished > 0) fail_to_read(slot);
    }
    const std::chrono::duration<double> waited = Standstill::Clock::now() - begin;
    wait_seconds_ += waited.count();
  }
  if (slot.error) std::rethrow_exception(slot.error);
}

}  // namespace tandem
