#include "train/step/sharded_update.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "parallel/replica_check.h"
#include "train/step/gradient_memory.h"

namespace tandem {
namespace {

ArenaRange range_of(const Bucket& bucket) {
  return {bucket.offset, bucket.offset + bucket.elements};
}

/// An arena of any dtype as attach() takes it. Arenas of parameters are a multiple of 32 bytes.
Tensor as_floats(const Tensor& arena) {
  return {arena.raw(), {static_cast<std::int64_t>(arena.bytes() / sizeof(float))}, DType::f32};
}

bool suits(const RunConfig& config) {
  return config.sharded_update && updates_one_by_one(config) && config.average.decay <= 0.0 &&
         config.gradient_compression == GradientCompression::none;
}

}  // namespace

std::optional<std::vector<ArenaRange>> ShardedUpdate::shares(const RunConfig& config,
                                                             Communicator& reduction,
                                                             const std::vector<Bucket>& buckets) {
  const PeerDevices* peers = reduction.peer_devices();
  if (peers == nullptr || !suits(config) || peers->members() > PeerCopies::most + 1) return {};
  std::vector<ArenaRange> shares;
  shares.reserve(buckets.size());
  for (const Bucket& bucket : buckets) {
    shares.push_back(share_of(range_of(bucket), peers->members(), peers->member()));
  }
  return shares;
}

ShardedUpdate::Attached::Attached(Communicator& communicator, const Tensor& arena)
    : communicator_(communicator), arena_(as_floats(arena)) {
  communicator_.attach(arena_);
}

std::vector<float*> ShardedUpdate::Attached::of_all() const {
  return communicator_.peer_devices()->arenas(arena_);
}

ShardedUpdate::ShardedUpdate(Communicator& reduction, ParameterStore& store,
                             const GradientBucketer& bucketer, std::vector<ArenaRange> shares)
    : reduction_(reduction), store_(store), bucketer_(bucketer), shares_(std::move(shares)) {
  const Tensor values = store_.trained_values();
  const Tensor weights = store_.trained_weights();
  const bool rounded = weights.raw() != values.raw();
  const std::vector<float*> of_values = attached_.emplace_back(reduction_, values).of_all();
  std::vector<float*> of_weights;
  if (rounded) of_weights = attached_.emplace_back(reduction_, weights).of_all();
  for (std::size_t m = 0; m < of_values.size(); ++m) {
    if (static_cast<int>(m) == peers().member()) continue;
    copies_.parameters[copies_.count] = of_values[m];
    if (rounded) copies_.weights[copies_.count] = of_weights[m];
    ++copies_.count;
  }
}

UpdateSettings ShardedUpdate::settings(std::size_t bucket) const {
  const ArenaRange& share = shares_.at(bucket);
  return {.weights = store_.trained_weights(),
          .peers = copies_,
          .begin = share.begin,
          .end = share.end};
}

void ShardedUpdate::gather(const Tensor& arena) {
  for (const Bucket& bucket : bucketer_.buckets()) {
    for (int owner = 0; owner < peers().members(); ++owner) {
      const ArenaRange share = share_of(range_of(bucket), peers().members(), owner);
      if (share.elements() == 0) continue;
      reduction_.broadcast(Tensor(arena.data<float>() + share.begin, {share.elements()}), owner);
    }
  }
  peers().wait_for_context("the gathering of what each rank has updated");
}

ShardedUpdate::ReadBits ShardedUpdate::read_bits() const {
  const Tensor values = store_.trained_values();
  const Tensor weights = store_.trained_weights();
  const bool rounded = weights.raw() != values.raw();
  const std::int64_t to_words = size_of(DType::f32) / size_of(weights.dtype());
  std::vector<ParameterSlice> as_values;
  std::vector<ParameterSlice> as_words;
  for (const Parameter& parameter : store_.trained()) {
    const std::int64_t elements = parameter.shape.elements();
    if (!rounded || parameter.role != ParameterRole::weight) {
      as_values.push_back({parameter.name, parameter.offset, elements});
    }
    if (rounded) {
      as_words.push_back(
          {parameter.name, parameter.offset / to_words, (elements + to_words - 1) / to_words});
    }
  }
  ReadBits bits{hash_slices(store_.context(), values, as_values), as_values};
  if (rounded) {
    const SliceHashes more = hash_slices(store_.context(), as_floats(weights), as_words);
    bits.hashes.slices.insert(bits.hashes.slices.end(), more.slices.begin(), more.slices.end());
    bits.slices.insert(bits.slices.end(), as_words.begin(), as_words.end());
  }
  // Not of the whole arena: of what lies between these slices others may have other values.
  const std::vector<std::int64_t>& all = bits.hashes.slices;
  bits.hashes.whole =
      std::bit_cast<std::int64_t>(hash_bytes(all.data(), all.size() * sizeof(all[0])));
  return bits;
}

void ShardedUpdate::check_bits(Communicator& hosts) const {
  const ReadBits bits = read_bits();
  check_replicas(hosts, bits.hashes, bits.slices);
}

void ShardedUpdate::check_rounding() {
  const ReadBits before = read_bits();
  store_.update_weights();
  const ReadBits after = read_bits();
  for (std::size_t i = 0; i < before.slices.size(); ++i) {
    TANDEM_CHECK(before.hashes.slices[i] == after.hashes.slices[i],
                 "layers read other weights of {} than it rounds to", before.slices[i].name);
  }
}

}  // namespace tandem
