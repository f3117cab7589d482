#include "data/distributed_sampler.h"

#include <fmt/format.h>

#include <new>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"

namespace tandem {

void DistributedSampler::require_dealt(const Options& options) {
  const std::int64_t parts = std::int64_t{options.world} * options.accumulate * options.folded;
  if (options.global_batch % parts == 0) return;
  const std::string carried =
      options.folded == 1 ? "" : fmt::format(" ({} a process)", options.folded);
  const std::string micro_batches =
      options.accumulate == 1 ? ""
                              : fmt::format(" x {} micro-batches = {}", options.accumulate, parts);
  input_error(
      "global batch {} does not divide by {} ranks{}{}; take a multiple of {}, for instance {}",
      options.global_batch, parts / options.accumulate, carried, micro_batches, parts,
      (options.global_batch / parts + 1) * parts);
}

DistributedSampler::DistributedSampler(const Options& options) : options_(options) {
  TANDEM_CHECK(options.world >= 1 && options.rank >= 0 && options.rank < options.world &&
                   options.accumulate >= 1 && options.folded >= 1 && options.global_batch >= 1 &&
                   options.size >= 0 && options.size <= std::int64_t{1} << 32,
               "a sampler of {} samples, global batch {}, rank {} of {}, {} micro-batches",
               options.size, options.global_batch, options.rank, options.world, options.accumulate);
  require_dealt(options);
  if (options.size < options.global_batch) {
    input_error(
        "the training set has {} samples, fewer than one global batch of {}; take a smaller batch "
        "or more data",
        format_count(options.size), format_count(options.global_batch));
  }
  micro_batch_ = options.global_batch / (std::int64_t{options.world} * options.accumulate);
}

DistributedSampler::Permutation DistributedSampler::permutation_of(const Options& options,
                                                                   std::int64_t epoch) {
  auto permutation =
      std::make_shared<std::vector<std::uint32_t>>(static_cast<std::size_t>(options.size));
  std::iota(permutation->begin(), permutation->end(), std::uint32_t{0});
  if (!options.shuffle) return permutation;
  RandomStream random(options.seed ^ mix64(hash_text("shuffle")),
                      static_cast<std::uint64_t>(epoch));
  for (std::size_t i = permutation->size(); i > 1; --i) {
    std::swap((*permutation)[i - 1], (*permutation)[random.below(i)]);
  }
  return permutation;
}

void DistributedSampler::turn_to(std::int64_t epoch) {
  // A million samples take tens of milliseconds, in which a GPU would wait; fewer less than a
  // thread.
  constexpr std::int64_t worth_a_thread = 100'000;
  const bool made = next_.valid() && epoch == epoch_ + 1;
  Permutation permutation = made ? next_.get() : nullptr;
  next_ = {};
  permutation_ = permutation ? std::move(permutation) : permutation_of(options_, epoch);
  epoch_ = epoch;
  if (options_.size < worth_a_thread || !options_.shuffle) return;
  // Where there is no thread or memory for it, it is made when its turn comes.
  const auto make = [options = options_, epoch = epoch + 1]() -> Permutation {
    try {
      return permutation_of(options, epoch);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  };
  try {
    next_ = std::async(std::launch::async, make).share();
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
}

std::int64_t DistributedSampler::place(std::int64_t epoch, std::int64_t step, int micro) {
  TANDEM_CHECK(epoch >= 0 && step >= 0 && step < steps_per_epoch() && micro >= 0 &&
                   micro < options_.accumulate,
               "no micro-batch {} of step {} of epoch {}", micro, step, epoch);
  if (epoch != epoch_) turn_to(epoch);
  return (std::int64_t{micro} * options_.world + options_.rank) * micro_batch_;
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch, std::int64_t step,
                                                      int micro) {
  const std::int64_t begin = place(epoch, step, micro);
  const auto first = permutation_->begin() + step * options_.global_batch + begin;
  return {first, first + micro_batch_};
}

std::int64_t DistributedSampler::predecessor(std::int64_t epoch, std::int64_t step, int micro) {
  const std::int64_t begin = place(epoch, step, micro);
  const std::int64_t before = begin > 0 ? begin - 1 : options_.global_batch - 1;
  return (*permutation_)[static_cast<std::size_t>(step * options_.global_batch + before)];
}

}  // namespace tandem
