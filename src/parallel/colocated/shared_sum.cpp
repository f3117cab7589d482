#include "parallel/colocated/shared_sum.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "parallel/colocated/combine.h"

namespace tandem {
namespace {

using Layout = SharedSumLayout;

// Processes share them, so that no lock can stand in for what the hardware lacks.
static_assert(std::atomic_ref<std::int64_t>::is_always_lock_free);

std::int64_t read(std::int64_t& counter) {
  return std::atomic_ref(counter).load(std::memory_order_acquire);
}

/// What this rank read and wrote before is done with for whoever reads the counter.
void publish(std::int64_t& counter, std::int64_t value) {
  std::atomic_ref(counter).store(value, std::memory_order_release);
}

}  // namespace

SharedSum::SharedSum(std::byte* memory, const SharedSumLayout& layout, const Options& options)
    : memory_(memory),
      layout_(layout),
      options_(options),
      sources_(static_cast<std::size_t>(layout.ranks)) {
  TANDEM_CHECK(layout.piece_bytes > 0 && layout.piece_bytes % Layout::line == 0,
               "pieces of {} bytes", layout.piece_bytes);
  TANDEM_CHECK(layout.windows >= 1, "{} windows", layout.windows);
}

std::int64_t& SharedSum::counter(int rank, Layout::Counter kind) const {
  const int index = rank * Layout::kinds + kind;
  return *reinterpret_cast<std::int64_t*>(memory_ + static_cast<std::size_t>(index) * Layout::line);
}

std::int64_t& SharedSum::exchanged_counter() const {
  return counter(layout_.ranks, static_cast<Layout::Counter>(0));
}

std::int64_t SharedSum::least(Layout::Counter kind) const {
  std::int64_t value = read(counter(0, kind));
  for (int rank = 1; rank < layout_.ranks; ++rank) {
    value = std::min(value, read(counter(rank, kind)));
  }
  return value;
}

std::byte* SharedSum::slot(std::int64_t n, int rank) const {
  return memory_ + layout_.counter_bytes() +
         static_cast<std::size_t>(n % layout_.windows) * layout_.window_bytes() +
         static_cast<std::size_t>(rank) * layout_.piece_bytes;
}

template <typename Place>
std::int64_t SharedSum::begin_pieces(std::int64_t elements, DType dtype, const Tensor& scratch,
                                     const Place& place) {
  std::int64_t scratch_at = 0;
  for_each_piece(elements, dtype, [&](std::int64_t at, std::int64_t count) {
    Piece& piece = pieces_.emplace_back(place(at, count));
    if (scratch.defined() && options_.leaders != nullptr) {
      const std::int64_t needed = options_.leaders->bf16_scratch(count);
      piece.scratch =
          Tensor(static_cast<std::byte*>(scratch.raw()) + scratch_at, {needed}, DType::bf16);
      scratch_at += needed * static_cast<std::int64_t>(size_of(DType::bf16));
    }
    ++begun_;
  });
  progress();
  return begun_;
}

std::int64_t SharedSum::begin(const Tensor& tensor, ReduceOp op, const Tensor& scratch) {
  return begin_pieces(
      tensor.elements(), tensor.dtype(), scratch, [&](std::int64_t at, std::int64_t count) {
        auto* data = static_cast<std::byte*>(tensor.raw()) +
                     static_cast<std::size_t>(at) * size_of(tensor.dtype());
        return Piece{.tensor = Tensor(data, {count}, tensor.dtype()), .op = op, .scratch = {}};
      });
}

std::int64_t SharedSum::begin_in_place(const SharedArenas& arenas, float* sums, std::int64_t first,
                                       std::int64_t elements, const Tensor& scratch) {
  return begin_pieces(elements, DType::f32, scratch, [&](std::int64_t at, std::int64_t count) {
    return Piece{.tensor = Tensor(sums + first + at, {count}),
                 .op = ReduceOp::sum,
                 .scratch = {},
                 .arenas = &arenas,
                 .offset = static_cast<std::size_t>(first + at) * sizeof(float)};
  });
}

bool SharedSum::progress() {
  bool any = false;
  for (;;) {
    // All stages in turn, so that what one has brought into the cache is there for the next.
    bool more = copy_in();
    more |= add();
    if (options_.leaders != nullptr) {
      more |= begin_exchange();
      more |= end_exchange();
    }
    more |= copy_out();
    if (!more) return any;
    any = true;
  }
}

SharedSum::Share SharedSum::share_of(const Tensor& tensor) const {
  // Whole cache lines, so that no two ranks write the same.
  const std::int64_t elements = tensor.elements();
  const auto in_line = static_cast<std::int64_t>(Layout::line / size_of(tensor.dtype()));
  const std::int64_t lines = (elements + in_line - 1) / in_line;
  const std::int64_t longest = (lines + layout_.ranks - 1) / layout_.ranks * in_line;
  const std::int64_t first = std::min(elements, longest * options_.rank);
  return {.first = first, .last = std::min(elements, first + longest)};
}

void SharedSum::find_sources(std::int64_t n) {
  const Piece& what = piece(n);
  for (int rank = 0; rank < layout_.ranks; ++rank) {
    sources_[static_cast<std::size_t>(rank)] =
        what.copied() ? slot(n, rank) : what.arenas->of(rank) + what.offset;
  }
  if (what.copied()) {
    sources_[static_cast<std::size_t>(options_.rank)] =
        static_cast<const std::byte*>(what.tensor.raw());
  }
}

std::byte* SharedSum::result(std::int64_t n) {
  const Piece& what = piece(n);
  return what.copied() ? slot(n, layout_.ranks) : static_cast<std::byte*>(what.tensor.raw());
}

bool SharedSum::copy_in() {
  if (written_ == begun_) return false;
  const Piece& what = piece(written_);
  if (what.copied()) {
    if (written_ - least(Layout::copied) >= layout_.windows) return false;
    const Tensor& tensor = what.tensor;
    const auto* from = static_cast<const std::byte*>(tensor.raw());
    std::byte* to = slot(written_, options_.rank);
    // All but what nobody else reads.
    const auto [first, last] = share_of(tensor);
    const std::size_t before = static_cast<std::size_t>(first) * size_of(tensor.dtype());
    const std::size_t behind = static_cast<std::size_t>(last) * size_of(tensor.dtype());
    std::memcpy(to, from, before);
    std::memcpy(to + behind, from + behind, tensor.bytes() - behind);
  }
  publish(counter(options_.rank, Layout::written), ++written_);
  return true;
}

bool SharedSum::add() {
  if (added_ == written_ || least(Layout::written) <= added_) return false;
  const Piece& what = piece(added_);
  find_sources(added_);
  const auto [first, last] = share_of(what.tensor);
  combine(what.tensor.dtype(), what.op, sources_, result(added_), first, last);
  publish(counter(options_.rank, Layout::added), ++added_);
  return true;
}

bool SharedSum::begin_exchange() {
  if (leaving_ == added_ || least(Layout::added) <= leaving_) return false;
  Piece& what = piece(leaving_);
  const Tensor sums(result(leaving_), what.tensor.shape(), what.tensor.dtype());
  what.exchange = what.scratch.defined()
                      ? options_.leaders->all_reduce_bf16_async(sums, what.scratch)
                      : options_.leaders->all_reduce_async(sums, what.op);
  ++leaving_;
  return true;
}

bool SharedSum::end_exchange() {
  if (exchanged_ == leaving_ || !piece(exchanged_).exchange->test()) return false;
  publish(exchanged_counter(), ++exchanged_);
  return true;
}

bool SharedSum::copy_out() {
  const std::int64_t ready =
      options_.several_hosts ? read(exchanged_counter()) : least(Layout::added);
  if (copied_ >= ready) return false;
  const Piece& what = piece(copied_);
  if (what.copied()) {
    std::memcpy(what.tensor.raw(), slot(copied_, layout_.ranks), what.tensor.bytes());
  }
  pieces_.pop_front();
  publish(counter(options_.rank, Layout::copied), ++copied_);
  return true;
}

}  // namespace tandem
