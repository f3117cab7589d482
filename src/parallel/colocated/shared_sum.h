#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "parallel/colocated/shared_host.h"
#include "parallel/communicator.h"

namespace tandem {

/// How the memory that a SharedSum uses is cut: counters, each on a cache line of its own, and
/// windows, in each of which one piece of a tensor has a slot for every rank's elements and one for
/// the result.
struct SharedSumLayout {
  static constexpr std::size_t line = 64;
  enum Counter : int { written, added, copied, kinds };

  int ranks;
  std::size_t piece_bytes;  ///< of the longest piece; a multiple of `line`
  std::int64_t windows = 1;

  std::size_t window_bytes() const { return static_cast<std::size_t>(ranks + 1) * piece_bytes; }
  /// Each rank's counters, and how many pieces the first rank has exchanged with other hosts.
  std::size_t counter_bytes() const { return static_cast<std::size_t>(ranks * kinds + 1) * line; }
};

/// All-reduces among the ranks of one host through memory that they share, and, on its first rank,
/// with the first ranks of other hosts.
///
/// Tensors are cut into pieces, which all ranks number alike. Each piece goes through four stages:
/// every rank copies its elements into its slot; every rank combines its share of them all, in the
/// order of the ranks, into the result; the first ranks of the hosts all-reduce the result among
/// them; every rank copies it out. A rank does what it can of this in progress(), for every piece
/// under way, and then says so in its counters: pieces that have passed a stage. Nothing else
/// orders the ranks. A window is used again once every rank has copied its piece out.
///
/// Pieces of arenas that lie in the shared memory themselves need no window: the ranks combine
/// their shares from there into memory for the sums, and none copies anything. A rank writes its
/// piece again once it is done, since then all have read it; and the sums are written again once
/// all ranks have begun the piece anew, thus read what was there.
class SharedSum {
 public:
  struct Options {
    int rank = 0;  ///< among those that share the memory
    bool several_hosts = false;
    Communicator* leaders = nullptr;  ///< the first ranks of the hosts, on them where several
  };

  /// `memory`: counter_bytes() and `windows` times window_bytes() of `layout`, on a cache line, all
  /// zeros before the first rank begins. It and the leaders outlive this.
  SharedSum(std::byte* memory, const SharedSumLayout& layout, const Options& options);

  /// Begins an all-reduce and returns its number, for done(). `scratch`: what bf16_scratch() says
  /// of the pieces together, or undefined.
  std::int64_t begin(const Tensor& tensor, ReduceOp op, const Tensor& scratch = {});
  /// Begins a sum of `elements` f32 of all ranks' arenas, from element `first` on, into the same
  /// place of `sums`, which all ranks map too. Both outlive it. Else as begin().
  std::int64_t begin_in_place(const SharedArenas& arenas, float* sums, std::int64_t first,
                              std::int64_t elements, const Tensor& scratch = {});
  /// Does what can be done without waiting; whether that was anything.
  bool progress();
  /// Whether this rank exchanges with other hosts, for which progress() must be called often.
  bool exchanges() const { return options_.leaders != nullptr; }
  bool done(std::int64_t number) const { return copied_ >= number; }

  /// Calls function(offset, elements) for every piece of a tensor of `elements`.
  template <typename Function>
  void for_each_piece(std::int64_t elements, DType dtype, Function&& function) const {
    const auto longest = static_cast<std::int64_t>(layout_.piece_bytes / size_of(dtype));
    for (std::int64_t at = 0; at < elements; at += longest) {
      function(at, std::min(longest, elements - at));
    }
  }

 private:
  struct Piece {
    /// Whether it goes through a window.
    bool copied() const { return arenas == nullptr; }

    Tensor tensor;  // where the result belongs, and for a piece that is copied the elements
    ReduceOp op;
    Tensor scratch;
    const SharedArenas* arenas = nullptr;  // of a piece that is not copied
    std::size_t offset = 0;                // bytes there
    std::unique_ptr<Request> exchange{};
  };

  /// The elements of a piece that this rank combines.
  struct Share {
    std::int64_t first;
    std::int64_t last;
  };

  /// Cuts a tensor; `place(at, elements)` makes a piece of its part.
  template <typename Place>
  std::int64_t begin_pieces(std::int64_t elements, DType dtype, const Tensor& scratch,
                            const Place& place);
  /// Where the ranks' elements of piece n are, and their combination.
  void find_sources(std::int64_t n);
  std::byte* result(std::int64_t n);
  Share share_of(const Tensor& tensor) const;
  bool copy_in();
  bool add();
  bool begin_exchange();
  bool end_exchange();
  bool copy_out();

  std::int64_t& counter(int rank, SharedSumLayout::Counter kind) const;
  std::int64_t& exchanged_counter() const;
  /// The least of all ranks' counters.
  std::int64_t least(SharedSumLayout::Counter kind) const;
  /// A rank's slot of piece n, the result behind those of the ranks.
  std::byte* slot(std::int64_t n, int rank) const;
  Piece& piece(std::int64_t n) { return pieces_[static_cast<std::size_t>(n - copied_)]; }

  std::byte* memory_;
  SharedSumLayout layout_;
  Options options_;
  std::deque<Piece> pieces_;               // those begun and not yet copied out
  std::vector<const std::byte*> sources_;  // of the piece being added, by rank
  // How many pieces have passed each stage on this rank.
  std::int64_t begun_ = 0;
  std::int64_t written_ = 0;
  std::int64_t added_ = 0;
  std::int64_t leaving_ = 0;
  std::int64_t exchanged_ = 0;
  std::int64_t copied_ = 0;
};

}  // namespace tandem
