#include "parallel/direct/peer_trial.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/log.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "parallel/gather_values.h"
#include "parallel/mapped/ipc_memory.h"
#include "parallel/mapped/members.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

using Word = std::uint32_t;

/// What a rank puts into its words, and into others'. Memory that nobody wrote holds zeros.
Word word_of(int rank) { return static_cast<Word>(rank) + 1; }

/// Memory that a rank offers to the others, where it can.
struct TrialOffer {
  bool offered;
  IpcAddress address;
};

/// Each rank's memory holds words that the others read, and behind them one for each rank, which
/// that one writes.
class PeerTrial {
 public:
  PeerTrial(Communicator& host, CudaContext& context)
      : host_(host),
        context_(context),
        offered_(DeviceBuffer::zeroed(context, read_bytes + most_members * sizeof(Word))),
        received_(
            DeviceBuffer::zeroed(context, static_cast<std::size_t>(host.size()) * read_bytes)) {
    const std::vector<Word> words(read_words, word_of(host.rank()));
    copy_to_device(context, words.data(), read_bytes, offered_.data());
  }

  /// Collective.
  bool succeeds() {
    try {
      return try_all();
    } catch (...) {
      // The others may use it, and freeing it would wait for copies that hang.
      offered_.leave();
      received_.leave();
      for (PeerMemory& memory : opened_) memory.leave();
      throw;
    }
  }

 private:
  static constexpr std::size_t read_words = 1024;
  static constexpr std::size_t read_bytes = read_words * sizeof(Word);

  /// What is refused here the driver refuses, and that is the answer.
  TrialOffer offer() const {
    try {
      return {true, ipc_address(offered_.data())};
    } catch (const SystemError& error) {
      log_debug("this GPU's memory cannot be shared: {}", error.what());
      return {};
    }
  }

  bool try_all() {
    const std::vector<TrialOffer> offers = gather_values(host_, offer());
    bool reached = true;
    for (int peer = 0; peer < host_.size(); ++peer) {
      if (peer == host_.rank()) continue;
      reached = enqueue_copies(peer, offers[static_cast<std::size_t>(peer)]) && reached;
    }
    wait_for_device(host_, context_,
                    "a trial of copies between GPUs (parallel.exchange = \"nccl\" makes none)");
    opened_.clear();
    host_.barrier();  // all have written
    std::int32_t all_reached = reached && has_read() && was_written() ? 1 : 0;
    // Nobody frees what another one may be opening.
    host_.all_reduce(Tensor(&all_reached, {1}, DType::i32), ReduceOp::min);
    return all_reached != 0;
  }

  bool enqueue_copies(int peer, const TrialOffer& theirs) {
    if (!theirs.offered) return false;
    try {
      std::byte* memory = opened_.emplace_back(theirs.address).data();
      enqueue_copy(memory, received_.data() + static_cast<std::size_t>(peer) * read_bytes,
                   read_bytes);
      enqueue_copy(offered_.data(),
                   memory + read_bytes + static_cast<std::size_t>(host_.rank()) * sizeof(Word),
                   sizeof(Word));
      return true;
    } catch (const SystemError& error) {
      log_debug("the memory of rank {}'s GPU cannot be reached: {}", peer, error.what());
      return false;
    }
  }
  void enqueue_copy(const std::byte* from, std::byte* to, std::size_t bytes) const {
    TANDEM_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context_.stream()));
  }

  std::vector<Word> words_at(const std::byte* memory, std::size_t count) const {
    std::vector<Word> words(count);
    copy_to_host(context_, memory, count * sizeof(Word), words.data());
    return words;
  }
  /// Whether what was read of each other rank is what that one has.
  bool has_read() const {
    for (int peer = 0; peer < host_.size(); ++peer) {
      if (peer == host_.rank()) continue;
      const auto words =
          words_at(received_.data() + static_cast<std::size_t>(peer) * read_bytes, read_words);
      if (std::ranges::count(words, word_of(peer)) == std::ssize(words)) continue;
      log_debug("copies from rank {}'s GPU bring other bytes than it has", peer);
      return false;
    }
    return true;
  }
  /// Whether each other rank has written its word.
  bool was_written() const {
    const auto words = words_at(offered_.data() + read_bytes, most_members);
    for (int peer = 0; peer < host_.size(); ++peer) {
      if (peer == host_.rank() || words[static_cast<std::size_t>(peer)] == word_of(peer)) continue;
      log_debug("copies of rank {}'s GPU do not arrive here", peer);
      return false;
    }
    return true;
  }

  Communicator& host_;
  CudaContext& context_;
  DeviceBuffer offered_;
  DeviceBuffer received_;
  std::vector<PeerMemory> opened_;
};

}  // namespace

bool gpus_reach_each_other(Communicator& host, CudaContext& context, const RankTopology& topology) {
  if (topology.hosts() > 1) return false;
  context.activate();
  return PeerTrial(host, context).succeeds();
}

}  // namespace tandem
