#include "parallel/communicator.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>

#include "base/last_words.h"
#include "base/log.h"
#include "parallel/bf16_sum.h"

namespace tandem {
namespace {

void check_memory(const Tensor& tensor, const char* operation) {
  TANDEM_CHECK(tensor.elements() == 0 || tensor.defined(), "{}: a tensor of {} without memory",
               operation, tensor.shape().text());
}

void check_reducible(const Communicator& communicator, const Tensor& tensor,
                     const char* operation) {
  TANDEM_CHECK(communicator.can_reduce(tensor.dtype()), "{}: {} elements can be moved, not reduced",
               operation, name_of(tensor.dtype()));
}

void check_rank(const Communicator& communicator, int rank, const char* operation) {
  TANDEM_CHECK(rank >= 0 && rank < communicator.size(), "{}: there is no rank {} among {}",
               operation, rank, communicator.size());
}

void check_peer(const Communicator& communicator, int peer, const char* operation) {
  check_rank(communicator, peer, operation);
  TANDEM_CHECK(peer != communicator.rank(), "{}: rank {} named itself as the other end", operation,
               peer);
}

void check_disjoint(const Tensor& a, const Tensor& b, const char* operation) {
  if (a.elements() == 0 || b.elements() == 0) return;
  const auto* a_begin = static_cast<const std::byte*>(a.raw());
  const auto* b_begin = static_cast<const std::byte*>(b.raw());
  const std::less_equal<> not_after;
  TANDEM_CHECK(not_after(a_begin + a.bytes(), b_begin) || not_after(b_begin + b.bytes(), a_begin),
               "{}: input and output overlap", operation);
}

void check_bf16_scratch(const Communicator& communicator, const Tensor& tensor,
                        const Tensor& scratch, const char* operation) {
  const std::int64_t needed = communicator.bf16_scratch(tensor.elements());
  check_memory(scratch, operation);
  TANDEM_CHECK(scratch.dtype() == DType::bf16 && scratch.elements() >= needed,
               "{}: scratch of {} {} where {} bf16 are needed", operation, scratch.elements(),
               name_of(scratch.dtype()), needed);
  TANDEM_CHECK(reinterpret_cast<std::uintptr_t>(scratch.raw()) % 16 == 0,
               "{}: the scratch is not 16-byte aligned", operation);
  check_disjoint(tensor, scratch, operation);
}

/// `blocks` holds `count` blocks of the size of `block`.
void check_blocks(const Tensor& block, const Tensor& blocks, int count, const char* operation) {
  TANDEM_CHECK(block.dtype() == blocks.dtype(), "{}: dtypes {} and {} differ", operation,
               name_of(block.dtype()), name_of(blocks.dtype()));
  TANDEM_CHECK(blocks.elements() == block.elements() * count,
               "{}: {} elements where {} ranks times {} are needed", operation, blocks.elements(),
               count, block.elements());
  check_memory(block, operation);
  check_memory(blocks, operation);
  check_disjoint(block, blocks, operation);
}

}  // namespace

bool Communicator::can_reduce(DType dtype) const {
  return dtype == DType::f32 || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8;
}

void Communicator::send(const Tensor& tensor, int to) {
  check_memory(tensor, "send");
  check_peer(*this, to, "send");
  do_send(tensor, to);
}

void Communicator::recv(const Tensor& tensor, int from) {
  check_memory(tensor, "recv");
  check_peer(*this, from, "recv");
  do_recv(tensor, from);
}

void Communicator::broadcast(const Tensor& tensor, int root) {
  check_memory(tensor, "broadcast");
  check_rank(*this, root, "broadcast");
  do_broadcast(tensor, root);
}

void Communicator::all_reduce(const Tensor& tensor, ReduceOp op) {
  check_memory(tensor, "all_reduce");
  check_reducible(*this, tensor, "all_reduce");
  do_all_reduce(tensor, op);
}

std::unique_ptr<Request> Communicator::all_reduce_async(const Tensor& tensor, ReduceOp op,
                                                        std::string_view label) {
  check_memory(tensor, "all_reduce_async");
  check_reducible(*this, tensor, "all_reduce_async");
  return do_all_reduce_async(tensor, op, label);
}

std::unique_ptr<Request> Communicator::all_reduce_bf16_async(const Tensor& tensor,
                                                             const Tensor& scratch,
                                                             std::string_view label) {
  constexpr const char* operation = "all_reduce_bf16_async";
  check_memory(tensor, operation);
  TANDEM_CHECK(tensor.dtype() == DType::f32, "{}: the elements are {}, not f32", operation,
               name_of(tensor.dtype()));
  if (bf16_scratch(tensor.elements()) == 0) {
    return do_all_reduce_async(tensor, ReduceOp::sum, label);
  }
  check_bf16_scratch(*this, tensor, scratch, operation);
  return do_all_reduce_bf16_async(tensor, scratch, label);
}

std::int64_t Communicator::bf16_scratch(std::int64_t elements) const {
  return size() == 1 ? 0 : Bf16SumLayout(elements, size()).scratch_elements();
}

Tensor Communicator::attach(const Tensor& arena) {
  check_memory(arena, "attach");
  TANDEM_CHECK(arena.dtype() == DType::f32, "attach: the elements are {}, not f32",
               name_of(arena.dtype()));
  return do_attach(arena);
}

void tell_at_the_end(const std::exception& error) noexcept {
  last_words_are_left() ? log_debug("{}", error.what()) : log_error("{}", error.what());
}

void Communicator::detach(const Tensor& arena) noexcept {
  try {
    do_detach(arena);
  } catch (const std::exception& error) {
    tell_at_the_end(error);
  }
}

std::unique_ptr<Request> Communicator::sum_attached_async(const Tensor& slice,
                                                          std::string_view label,
                                                          const Tensor& scratch) {
  constexpr const char* operation = "sum_attached_async";
  check_memory(slice, operation);
  check_reducible(*this, slice, operation);
  if (scratch.defined()) check_bf16_scratch(*this, slice, scratch, operation);
  return do_sum_attached_async(slice, label, scratch);
}

std::unique_ptr<Request> Communicator::do_sum_attached_async(const Tensor& slice,
                                                             std::string_view label,
                                                             const Tensor& scratch) {
  return scratch.defined() ? do_all_reduce_bf16_async(slice, scratch, label)
                           : do_all_reduce_async(slice, ReduceOp::sum, label);
}

void Communicator::reduce(const Tensor& tensor, ReduceOp op, int root) {
  check_memory(tensor, "reduce");
  check_reducible(*this, tensor, "reduce");
  check_rank(*this, root, "reduce");
  do_reduce(tensor, op, root);
}

void Communicator::all_gather(const Tensor& input, const Tensor& output) {
  check_blocks(input, output, size(), "all_gather");
  do_all_gather(input, output);
}

void Communicator::gather(const Tensor& input, const Tensor& output, int root) {
  check_rank(*this, root, "gather");
  check_memory(input, "gather");
  if (rank() == root) check_blocks(input, output, size(), "gather");
  do_gather(input, output, root);
}

void Communicator::scatter(const Tensor& input, const Tensor& output, int root) {
  check_rank(*this, root, "scatter");
  check_memory(output, "scatter");
  if (rank() == root) check_blocks(output, input, size(), "scatter");
  do_scatter(input, output, root);
}

void Communicator::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  check_blocks(output, input, size(), "reduce_scatter");
  check_reducible(*this, input, "reduce_scatter");
  do_reduce_scatter(input, output, op);
}

void Communicator::all_to_all(const Tensor& input, const Tensor& output) {
  check_blocks(input, output, 1, "all_to_all");
  TANDEM_CHECK(input.elements() % size() == 0, "all_to_all: {} elements do not divide among {}",
               input.elements(), size());
  do_all_to_all(input, output);
}

void Communicator::barrier() { do_barrier(); }

void Communicator::sum_doubles(double* values, std::int64_t count) {
  TANDEM_CHECK(count >= 0 && (count == 0 || values != nullptr),
               "sum_doubles: {} values without memory", count);
  do_sum_doubles(values, count);
}

void Communicator::do_sum_doubles(double*, std::int64_t) {
  throw Error(fmt::format("sum_doubles: the communicator '{}' has none", name()));
}

std::unique_ptr<Communicator> Communicator::split(int color) {
  TANDEM_CHECK(color >= 0, "split: the color {} is below 0", color);
  return do_split(color);
}

std::unique_ptr<Communicator> Communicator::do_split(int) {
  throw Error(fmt::format("split: the communicator '{}' cannot be split", name()));
}

void Communicator::do_wait_until(const std::function<bool()>& done,
                                 const std::function<std::string()>& /*what*/,
                                 Awaited /*awaited*/) {
  // Nobody to lose patience with.
  while (!done()) heartbeat();
}

}  // namespace tandem
