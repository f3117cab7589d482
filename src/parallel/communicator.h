#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/heartbeat.h"
#include "base/process_place.h"
#include "parallel/shared_device.h"
#include "tensor/tensor.h"

namespace tandem {

class PeerDevices;

/// How all_reduce, reduce and reduce_scatter combine the ranks' elements. There is no average: a
/// sum scaled once by its reader costs no pass of its own.
enum class ReduceOp { sum, max, min };

/// A collective under way. Its tensor must neither be read nor written until it is done, and its
/// memory must outlive it. Only a job that is about to be aborted may drop a request unfinished:
/// the operation then stays outstanding, because waiting for a peer that failed would hang.
class Request {
 public:
  virtual ~Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Lets the operation progress; true once it is done, and from then on.
  virtual bool test() = 0;
  /// Returns once the operation is done; at once where it is done already.
  virtual void wait() = 0;

 protected:
  Request() = default;
};

/// Waiting for other ranks took too long: one of them hangs or is gone. The message names what was
/// waited for, and the ranks that give no sign of life, or whose devices do not go on. Nothing that
/// has met it goes on, so it leaves its message as last words (base/last_words.h).
class CommunicationTimeout : public Error {
 public:
  /// The message is `waited` ("waited 20 s in barrier"), a space and `reason`.
  CommunicationTimeout(const std::string& waited, const std::string& reason,
                       std::vector<int> ranks = {}, std::vector<int> behind = {})
      : Error(Verbatim{}, waited + " " + reason),
        waited_(waited),
        reason_(reason),
        ranks_(std::move(ranks)),
        behind_(std::move(behind)) {
    leave_last_words_of_step(what());
  }

  const std::string& waited() const { return waited_; }
  const std::string& reason() const { return reason_; }
  /// Those that are to blame, as the whole job counts them; none where that is not known.
  const std::vector<int>& ranks() const { return ranks_; }
  /// Where all give signs of life: those whose devices have begun the fewest of the operations that
  /// Communicator::count_operations() counts, none where that is not known, or all have begun as
  /// many.
  const std::vector<int>& behind() const { return behind_; }

 private:
  std::string waited_;
  std::string reason_;
  std::vector<int> ranks_;
  std::vector<int> behind_;
};

/// The process of another rank of this host has ended without a word of its own. The message names
/// the rank and the host, and is left as last words too.
class RankEnded : public Error {
 public:
  explicit RankEnded(const std::string& message) : Error(Verbatim{}, message) {
    leave_last_words_of_step(what());
  }
};

/// The link to another rank is gone. Mostly that rank has met an error, of which it tells itself:
/// what this one could say would name the wrong rank.
class PeerError : public SystemError {
 public:
  explicit PeerError(const std::string& message) : SystemError(message) {}
};

/// For what a communicator meets while it is taken down, where nothing can be thrown: an error
/// line, unless last words are left, as by the errors above, which end this process.
void tell_at_the_end(const std::exception& error) noexcept;

/// What Communicator::sum_attached_async() costs, which says how large slices should be.
enum class SumCost : std::uint8_t {
  usual,        ///< little at once takes more time for each byte
  little_fast,  ///< little takes little time: many slices hide better behind computing than few
  each_slow,    ///< each waits for the turn of every rank on a device: the fewer the better
};

/// What a rank waits for in Communicator::wait_until().
enum class Awaited : std::uint8_t {
  ranks,       ///< something that other ranks take part in, such as a step on its device
  own_device,  ///< what its own device does without the others, such as a batch of an evaluation
};

/// A fixed group of ranks that exchange tensors.
///
/// Rules for every operation:
/// - All ranks of the group call the same collectives in the same order, with the same dtype and
///   element count. The count alone matters, not how a shape spells it; zero elements are legal
///   everywhere, and a tensor without elements may have no memory.
/// - Element counts are 64-bit: an implementation over a 32-bit interface splits the message.
/// - f32, i32, i64 and u8 can be reduced, by device kinds f16 and bf16 too; every dtype can be
///   moved. Integer sums must not overflow.
/// - all_reduce leaves the same bits on every rank (max and min: of zeros of both signs and of NaNs
///   none is promised). The order of a sum is fixed by group, count and kind, so runs repeat; it
///   may differ between all_reduce and all_reduce_async.
/// - Input and output must not overlap.
/// - A rule broken locally throws Error before anything is sent; a failed transfer throws Error
///   with the transport's text, and one that takes too long CommunicationTimeout. After an Error
///   the group is in no defined state: end the job.
/// - One thread at a time uses a communicator, the one that made it.
///
/// Where the memory lies and when an operation is done belong to the kind. Host kinds (Self, Mpi,
/// Colocated over POSIX shared memory) take host memory and are done on return. A device kind
/// (Nccl, Direct, Colocated over CUDA IPC) is constructed with its device's context and takes
/// that device's memory; its operations are enqueued after the work already enqueued there, and
/// return before they are done. Its Request::test() asks an event, and its wait() makes the
/// context's stream, not the host, wait; so code that touches a tensor only after wait(), through
/// the context, is right for both. Its barrier() orders the streams, not the hosts. A new kind
/// implements the do_ functions, which see only arguments that passed the checks here.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// This process's place, 0 <= rank() < size().
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "self", "mpi", ...
  virtual std::string_view name() const = 0;
  /// Whether this is a host kind: its tensors are in host memory, its operations done on return.
  virtual bool is_host() const { return true; }
  /// Whether elements of `dtype` can be reduced.
  virtual bool can_reduce(DType dtype) const;

  /// Sends to another rank; may wait for its recv. Messages between two ranks arrive in order.
  /// Sending to oneself is an error.
  void send(const Tensor& tensor, int to);
  /// Receives from another rank. Throws Error where the message is not exactly the tensor's size.
  void recv(const Tensor& tensor, int from);

  /// Overwrites every rank's tensor with the root's.
  void broadcast(const Tensor& tensor, int root);
  /// Combines in place, result on every rank.
  void all_reduce(const Tensor& tensor, ReduceOp op);
  /// As all_reduce, returning at once. Several may be outstanding; every rank starts them in the
  /// same order. `label` is what a time-out's message calls the operation ("gradient bucket 1 of
  /// 3"); its text outlives the request.
  std::unique_ptr<Request> all_reduce_async(const Tensor& tensor, ReduceOp op,
                                            std::string_view label = {});
  /// As all_reduce_async of an f32 sum, with half the bytes to move: each rank's elements are
  /// rounded to bf16, added up in f32 in the order of the ranks, and the sums rounded to bf16; all
  /// of it to nearest, ties to even. Kinds with co-located ranks round each device's sum in the
  /// place of each rank's elements. Where nothing is moved between devices, as in a group of one,
  /// nothing is rounded. `scratch` is 16-byte aligned, of bf16 and at least
  /// bf16_scratch(tensor.elements()) elements, and belongs to the operation as the tensor does;
  /// those of a device kind come one after the other and may share it. A host kind goes on with it
  /// in test() and wait() alone: so the ranks wait for their requests in the order in which they
  /// began them.
  std::unique_ptr<Request> all_reduce_bf16_async(const Tensor& tensor, const Tensor& scratch,
                                                 std::string_view label = {});
  /// Elements of scratch that all_reduce_bf16_async of `elements` needs; 0: it moves none as bf16.
  virtual std::int64_t bf16_scratch(std::int64_t elements) const;
  /// The same on all ranks.
  virtual SumCost sum_cost() const { return SumCost::usual; }

  /// Collective: prepares for sum_attached_async() of slices of `arena` (f32). Returns where their
  /// sums are then read, each at its slice's place: the arena itself, or memory as large that the
  /// communicator owns and that ranks of one device share, which is read alone. The arena outlives
  /// the communicator's use of it and is attached once.
  Tensor attach(const Tensor& arena);
  /// Bytes that attach() of an arena of so many elements takes of this rank's device beside it; of
  /// memory that ranks of the device share, this rank's part.
  virtual std::size_t attached_bytes(std::int64_t /*elements*/) const { return 0; }
  /// Collective, unless an error unwinds this rank: ends the use of an attached arena, and of what
  /// attach() returned. What fails is logged.
  void detach(const Tensor& arena) noexcept;
  /// Sums a slice of an attached arena over the ranks, as all_reduce_async does, into what attach()
  /// returned. Where that is not the arena the slice keeps this rank's elements, and must not be
  /// written before the operation is done. `scratch`, where defined, asks for bf16 between devices,
  /// with the rules of all_reduce_bf16_async.
  std::unique_ptr<Request> sum_attached_async(const Tensor& slice, std::string_view label = {},
                                              const Tensor& scratch = {});
  /// Combines into the root's tensor, in place; the other ranks' tensors keep their values.
  void reduce(const Tensor& tensor, ReduceOp op, int root);
  /// output (size() * input.elements()) = every rank's input, in rank order, on every rank.
  void all_gather(const Tensor& input, const Tensor& output);
  /// As all_gather, on the root alone. Elsewhere `output` is ignored and may be Tensor().
  void gather(const Tensor& input, const Tensor& output, int root);
  /// output = the rank's block of the root's input (size() * output.elements()). Elsewhere than on
  /// the root `input` is ignored and may be Tensor().
  void scatter(const Tensor& input, const Tensor& output, int root);
  /// output = the rank's block of the combined inputs (size() * output.elements() each).
  void reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op);
  /// Block r of output = block rank() of rank r's input. Both have the same element count, a
  /// multiple of size().
  void all_to_all(const Tensor& input, const Tensor& output);
  /// Returns once every rank has called it.
  void barrier();
  /// Replaces each of `count` values by its sum over the ranks, the same bits on all of them, in
  /// the memory that the communicator takes. Device kinds alone, and the group of one.
  void sum_doubles(double* values, std::int64_t count);

  /// What the ranks of this rank's device can share; null where the kind has no such thing.
  virtual SharedDevice* shared_device() { return nullptr; }
  /// What ranks can do in the memory of each other's devices; null likewise.
  virtual PeerDevices* peer_devices() { return nullptr; }

  /// Waits on the host until `done()` says so, for what was enqueued on a device, say. Not
  /// collective. `done` is called over and over, so it pauses as it sees fit. Throws as every
  /// operation does, CommunicationTimeout after the same time; `what` then says what was waited
  /// for. Whoever waits for its own device is at work for the others (still_working()) until it
  /// loses patience, which names this rank, and those that have lost it at the same time.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                  Awaited awaited = Awaited::ranks) {
    do_wait_until(done, what, awaited);
  }

  /// Tells the others that this rank is at work that they may be waiting for, so that their
  /// time-outs begin anew. No heartbeat(): whoever knows that the work gets on gives that. Not
  /// collective and cheap: for calling now and then in such work.
  virtual void still_working() {}
  /// The same with a heartbeat(): this rank gets on, or waits for what has a time-out of its own.
  void report_progress() {
    heartbeat();
    still_working();
  }

  /// From here on this rank's signs of life tell the others what `begun` says: how many operations
  /// between ranks its device has begun, modulo 2^32, of those that all ranks begin in one order.
  /// So a wait that takes too long can tell whose device stays behind
  /// (CommunicationTimeout::behind()). It is asked by whoever waits; an empty one ends it. The
  /// other kinds than that of all processes pass over it.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the kinds that take it keep it
  virtual void count_operations(std::function<std::uint32_t()> /*begun*/) {}

  /// Collective: from here on wait_until(), still_working() and all operations that wait
  /// throw RankEnded where the process of a rank of this host has ended unexplained
  /// (parallel/host_processes.h). Kinds that wait through another one do as that one does.
  virtual void watch_processes() {}

  /// Collective: the communicator of the ranks that give the same `color` (0 or more), in the order
  /// of their ranks. This one outlives it. Its waiting is this one's: signs of life reach whoever
  /// waits in either, and the message of a time-out numbers ranks as this one does. Host kinds
  /// alone; device kinds throw Error.
  std::unique_ptr<Communicator> split(int color);

 protected:
  Communicator() = default;

 private:
  virtual void do_send(const Tensor& tensor, int to) = 0;
  virtual void do_recv(const Tensor& tensor, int from) = 0;
  virtual void do_broadcast(const Tensor& tensor, int root) = 0;
  virtual void do_all_reduce(const Tensor& tensor, ReduceOp op) = 0;
  virtual std::unique_ptr<Request> do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                                       std::string_view label) = 0;
  virtual std::unique_ptr<Request> do_all_reduce_bf16_async(const Tensor& tensor,
                                                            const Tensor& scratch,
                                                            std::string_view label) = 0;
  virtual Tensor do_attach(const Tensor& arena) { return arena; }
  virtual void do_detach(const Tensor& /*arena*/) {}
  virtual std::unique_ptr<Request> do_sum_attached_async(const Tensor& slice,
                                                         std::string_view label,
                                                         const Tensor& scratch);
  virtual void do_reduce(const Tensor& tensor, ReduceOp op, int root) = 0;
  virtual void do_all_gather(const Tensor& input, const Tensor& output) = 0;
  virtual void do_gather(const Tensor& input, const Tensor& output, int root) = 0;
  virtual void do_scatter(const Tensor& input, const Tensor& output, int root) = 0;
  virtual void do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) = 0;
  virtual void do_all_to_all(const Tensor& input, const Tensor& output) = 0;
  virtual void do_barrier() = 0;
  virtual void do_sum_doubles(double* values, std::int64_t count);
  virtual void do_wait_until(const std::function<bool()>& done,
                             const std::function<std::string()>& what, Awaited awaited);
  virtual std::unique_ptr<Communicator> do_split(int color);
};

}  // namespace tandem
