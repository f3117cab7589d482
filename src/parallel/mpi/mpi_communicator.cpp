#include "parallel/mpi/mpi_communicator.h"

#include <mpi.h>

#include <climits>
#include <exception>
#include <vector>

#include "base/log.h"
#include "parallel/host_processes.h"
#include "parallel/mpi/mpi_bf16_sum.h"
#include "parallel/mpi/mpi_error.h"
#include "parallel/mpi/mpi_types.h"
#include "parallel/mpi/mpi_watch.h"

namespace tandem {
namespace {

constexpr int message_tag = 0;

class MpiRequest final : public Request {
 public:
  MpiRequest(MpiWatch& watch, std::vector<MPI_Request> requests, std::int64_t elements,
             std::string_view label)
      : watch_(watch), requests_(std::move(requests)), elements_(elements), label_(label) {}

  bool test() override {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
    return done != 0;
  }
  void wait() override { watch_.wait(requests_, "all_reduce_async", elements_, label_); }

 private:
  MpiWatch& watch_;
  std::vector<MPI_Request> requests_;
  std::int64_t elements_;
  std::string_view label_;
};

}  // namespace

struct MpiCommunicator::Handle {
  /// The whole job's.
  explicit Handle(const MpiOptions& options)
      : world_watch(std::make_unique<MpiWatch>(options.timeout_seconds, options.meeting_seconds)),
        watch(*world_watch) {}
  /// A part's, which waits as the whole job does.
  explicit Handle(MpiWatch& watch_of_world) : watch(watch_of_world) {}

  /// Starts an operation, `start(request)`, and waits for it.
  template <typename Start>
  MPI_Status finish(const char* operation, std::int64_t elements, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(start(&request), operation);
    MPI_Status status;
    watch.wait({&request, 1}, operation, elements, {}, &status);
    return status;
  }

  std::unique_ptr<MpiWatch> world_watch;  // null of a part
  MpiWatch& watch;
  MPI_Comm comm = MPI_COMM_NULL;
  int exceptions = std::uncaught_exceptions();
};

MpiCommunicator::MpiCommunicator(const MpiOptions& options)
    : handle_(std::make_unique<Handle>(options)), options_(options) {
  TANDEM_CHECK(options.message_elements >= 1 && options.message_elements <= INT_MAX,
               "messages of {} elements", options.message_elements);
  handle_->finish("making a communicator", 0, [this](MPI_Request* request) {
    return MPI_Comm_idup(MPI_COMM_WORLD, &handle_->comm, request);
  });
  take_place();
}

MpiCommunicator::MpiCommunicator(const MpiCommunicator& whole, int color)
    : handle_(std::make_unique<Handle>(whole.handle_->watch)), options_(whole.options_) {
  // Splitting would wait for ever for a rank that hangs; where all have come, not for long.
  handle_->finish("splitting a communicator", 0,
                  [&](MPI_Request* request) { return MPI_Ibarrier(whole.handle_->comm, request); });
  check_mpi(MPI_Comm_split(whole.handle_->comm, color, whole.rank_, &handle_->comm),
            "MPI_Comm_split");
  take_place();
}

void MpiCommunicator::take_place() {
  check_mpi(MPI_Comm_set_errhandler(handle_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(handle_->comm, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle_->comm, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective: while an error unwinds this rank alone, the others would not join in.
  if (std::uncaught_exceptions() > handle_->exceptions) return;
  try {
    if (handle_->world_watch) handle_->world_watch->free();
    check_mpi(MPI_Comm_free(&handle_->comm), "MPI_Comm_free");
  } catch (const Error& error) {
    tell_at_the_end(error);
  }
}

void MpiCommunicator::still_working() { handle_->watch.still_working(); }

void MpiCommunicator::count_operations(std::function<std::uint32_t()> begun) {
  if (handle_->world_watch) handle_->watch.count_operations(std::move(begun));
}

void MpiCommunicator::watch_processes() {
  if (handle_->watch.watches_processes()) return;
  try {
    handle_->watch.watch(std::make_unique<HostProcesses>(*this, RankTopology::gather(*this)));
  } catch (const InputError& error) {  // on all ranks, whose signs of life must do then
    log_debug("ends of processes are not watched: {}", error.what());
  }
}

void MpiCommunicator::do_wait_until(const std::function<bool()>& done,
                                    const std::function<std::string()>& what, Awaited awaited) {
  handle_->watch.wait_until(done, what, awaited);
}

void MpiCommunicator::do_send(const Tensor& tensor, int to) {
  const auto send = [&](void* data, int count) {
    handle_->finish("send", count, [&](MPI_Request* request) {
      return MPI_Isend(data, count, mpi_type(tensor.dtype()), to, message_tag, handle_->comm,
                       request);
    });
  };
  // Nothing to send is sent too: the receiver must learn of a size that it does not expect.
  if (tensor.elements() == 0) send(nullptr, 0);
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements, send);
}

void MpiCommunicator::do_recv(const Tensor& tensor, int from) {
  const MPI_Datatype type = mpi_type(tensor.dtype());
  const auto recv = [&](void* data, int count) {
    const MPI_Status status = handle_->finish("recv", count, [&](MPI_Request* request) {
      return MPI_Irecv(data, count, type, from, message_tag, handle_->comm, request);
    });
    int received = 0;
    check_mpi(MPI_Get_count(&status, type, &received), "MPI_Get_count");
    TANDEM_CHECK(received == count, "recv from {}: {} elements arrived where {} were expected",
                 from, received, count);
  };
  if (tensor.elements() == 0) recv(nullptr, 0);
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements, recv);
}

void MpiCommunicator::do_broadcast(const Tensor& tensor, int root) {
  for_each_piece(
      tensor, 0, tensor.elements(), options_.message_elements, [&](void* data, int count) {
        handle_->finish("broadcast", count, [&](MPI_Request* request) {
          return MPI_Ibcast(data, count, mpi_type(tensor.dtype()), root, handle_->comm, request);
        });
      });
}

void MpiCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements,
                 [&](void* data, int count) {
                   handle_->finish("all_reduce", count, [&](MPI_Request* request) {
                     return MPI_Iallreduce(MPI_IN_PLACE, data, count, mpi_type(tensor.dtype()),
                                           mpi_op(op), handle_->comm, request);
                   });
                 });
}

std::unique_ptr<Request> MpiCommunicator::do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                                              std::string_view label) {
  std::vector<MPI_Request> requests;
  for_each_piece(
      tensor, 0, tensor.elements(), options_.message_elements, [&](void* data, int count) {
        check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, count, mpi_type(tensor.dtype()), mpi_op(op),
                                 handle_->comm, &requests.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Iallreduce");
      });
  return std::make_unique<MpiRequest>(handle_->watch, std::move(requests), tensor.elements(),
                                      label);
}

std::unique_ptr<Request> MpiCommunicator::do_all_reduce_bf16_async(const Tensor& tensor,
                                                                   const Tensor& scratch,
                                                                   std::string_view label) {
  const MpiBf16Sum::Link link{.watch = handle_->watch,
                              .comm = handle_->comm,
                              .rank = rank_,
                              .ranks = size_,
                              .message_elements = options_.message_elements};
  return std::make_unique<MpiBf16Sum>(link, MpiBf16Sum::tag_of(bf16_sums_++), tensor, scratch,
                                      label);
}

void MpiCommunicator::do_reduce(const Tensor& tensor, ReduceOp op, int root) {
  const bool here = rank_ == root;
  for_each_piece(
      tensor, 0, tensor.elements(), options_.message_elements, [&](void* data, int count) {
        handle_->finish("reduce", count, [&](MPI_Request* request) {
          return MPI_Ireduce(here ? MPI_IN_PLACE : data, here ? data : nullptr, count,
                             mpi_type(tensor.dtype()), mpi_op(op), root, handle_->comm, request);
        });
      });
}

void MpiCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements(), size_, options_.message_elements);
  handle_->finish("all_gather", input.elements(), [&](MPI_Request* request) {
    return MPI_Iallgather(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                          block.type(), handle_->comm, request);
  });
}

void MpiCommunicator::do_gather(const Tensor& input, const Tensor& output, int root) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements(), size_, options_.message_elements);
  handle_->finish("gather", input.elements(), [&](MPI_Request* request) {
    return MPI_Igather(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                       block.type(), root, handle_->comm, request);
  });
}

void MpiCommunicator::do_scatter(const Tensor& input, const Tensor& output, int root) {
  if (output.elements() == 0) return;
  const MpiBlock block(output.dtype(), output.elements(), size_, options_.message_elements);
  handle_->finish("scatter", output.elements(), [&](MPI_Request* request) {
    return MPI_Iscatter(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                        block.type(), root, handle_->comm, request);
  });
}

void MpiCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  const std::int64_t elements = output.elements();
  const MPI_Datatype type = mpi_type(output.dtype());
  if (input.elements() == 0) return;
  if (input.elements() <= options_.message_elements) {
    handle_->finish("reduce_scatter", elements, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(input.raw(), output.raw(), static_cast<int>(elements), type,
                                       mpi_op(op), handle_->comm, request);
    });
    return;
  }
  // MPI reduces no derived types, so long blocks go piece by piece to the rank that keeps them.
  for (int root = 0; root < size_; ++root) {
    auto* result = static_cast<std::byte*>(output.raw());
    for_each_piece(input, root * elements, elements, options_.message_elements,
                   [&](void* data, int count) {
                     handle_->finish("reduce_scatter", count, [&](MPI_Request* request) {
                       return MPI_Ireduce(data, rank_ == root ? result : nullptr, count, type,
                                          mpi_op(op), root, handle_->comm, request);
                     });
                     result += static_cast<std::size_t>(count) * size_of(output.dtype());
                   });
  }
}

void MpiCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements() / size_, size_, options_.message_elements);
  handle_->finish("all_to_all", input.elements(), [&](MPI_Request* request) {
    return MPI_Ialltoall(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                         block.type(), handle_->comm, request);
  });
}

void MpiCommunicator::do_barrier() {
  handle_->finish("barrier", 0,
                  [&](MPI_Request* request) { return MPI_Ibarrier(handle_->comm, request); });
}

std::unique_ptr<Communicator> MpiCommunicator::do_split(int color) {
  return std::unique_ptr<Communicator>(new MpiCommunicator(*this, color));
}

}  // namespace tandem
