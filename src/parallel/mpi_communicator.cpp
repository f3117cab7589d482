#include "parallel/mpi_communicator.h"

#include <mpi.h>

#include <climits>
#include <exception>
#include <vector>

#include "base/log.h"
#include "parallel/mpi_error.h"
#include "parallel/mpi_types.h"

namespace tandem {
namespace {

constexpr int message_tag = 0;

class MpiRequest final : public Request {
 public:
  explicit MpiRequest(std::vector<MPI_Request> requests) : requests_(std::move(requests)) {}

  bool test() override {
    int done = 0;
    check_mpi(MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }
  void wait() override {
    check_mpi(MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

 private:
  int count() const { return static_cast<int>(requests_.size()); }
  std::vector<MPI_Request> requests_;
};

}  // namespace

struct MpiCommunicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  int exceptions = std::uncaught_exceptions();
};

MpiCommunicator::MpiCommunicator(const MpiOptions& options)
    : handle_(std::make_unique<Handle>()), options_(options) {
  TANDEM_CHECK(options.message_elements >= 1 && options.message_elements <= INT_MAX,
               "messages of {} elements", options.message_elements);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &handle_->comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(handle_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(handle_->comm, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle_->comm, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective: while an error unwinds this rank alone, the others would not join in.
  if (std::uncaught_exceptions() > handle_->exceptions) return;
  if (MPI_Comm_free(&handle_->comm) != MPI_SUCCESS) log_error("MPI_Comm_free failed");
}

void MpiCommunicator::do_send(const Tensor& tensor, int to) {
  const auto send = [&](void* data, int count) {
    check_mpi(MPI_Send(data, count, mpi_type(tensor.dtype()), to, message_tag, handle_->comm),
              "MPI_Send");
  };
  // Nothing to send is sent too: the receiver must learn of a size that it does not expect.
  if (tensor.elements() == 0) send(nullptr, 0);
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements, send);
}

void MpiCommunicator::do_recv(const Tensor& tensor, int from) {
  const MPI_Datatype type = mpi_type(tensor.dtype());
  const auto recv = [&](void* data, int count) {
    MPI_Status status;
    check_mpi(MPI_Recv(data, count, type, from, message_tag, handle_->comm, &status), "MPI_Recv");
    int received = 0;
    check_mpi(MPI_Get_count(&status, type, &received), "MPI_Get_count");
    TANDEM_CHECK(received == count, "recv from {}: {} elements arrived where {} were expected",
                 from, received, count);
  };
  if (tensor.elements() == 0) recv(nullptr, 0);
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements, recv);
}

void MpiCommunicator::do_broadcast(const Tensor& tensor, int root) {
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements,
                 [&](void* data, int count) {
                   check_mpi(MPI_Bcast(data, count, mpi_type(tensor.dtype()), root, handle_->comm),
                             "MPI_Bcast");
                 });
}

void MpiCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements,
                 [&](void* data, int count) {
                   check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, mpi_type(tensor.dtype()),
                                           mpi_op(op), handle_->comm),
                             "MPI_Allreduce");
                 });
}

std::unique_ptr<Request> MpiCommunicator::do_all_reduce_async(const Tensor& tensor, ReduceOp op) {
  std::vector<MPI_Request> requests;
  for_each_piece(
      tensor, 0, tensor.elements(), options_.message_elements, [&](void* data, int count) {
        check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, count, mpi_type(tensor.dtype()), mpi_op(op),
                                 handle_->comm, &requests.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Iallreduce");
      });
  return std::make_unique<MpiRequest>(std::move(requests));
}

void MpiCommunicator::do_reduce(const Tensor& tensor, ReduceOp op, int root) {
  for_each_piece(tensor, 0, tensor.elements(), options_.message_elements,
                 [&](void* data, int count) {
                   const bool here = rank_ == root;
                   check_mpi(MPI_Reduce(here ? MPI_IN_PLACE : data, here ? data : nullptr, count,
                                        mpi_type(tensor.dtype()), mpi_op(op), root, handle_->comm),
                             "MPI_Reduce");
                 });
}

void MpiCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements(), size_, options_.message_elements);
  check_mpi(MPI_Allgather(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                          block.type(), handle_->comm),
            "MPI_Allgather");
}

void MpiCommunicator::do_gather(const Tensor& input, const Tensor& output, int root) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements(), size_, options_.message_elements);
  check_mpi(MPI_Gather(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                       block.type(), root, handle_->comm),
            "MPI_Gather");
}

void MpiCommunicator::do_scatter(const Tensor& input, const Tensor& output, int root) {
  if (output.elements() == 0) return;
  const MpiBlock block(output.dtype(), output.elements(), size_, options_.message_elements);
  check_mpi(MPI_Scatter(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                        block.type(), root, handle_->comm),
            "MPI_Scatter");
}

void MpiCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  const std::int64_t elements = output.elements();
  const MPI_Datatype type = mpi_type(output.dtype());
  if (input.elements() == 0) return;
  if (input.elements() <= options_.message_elements) {
    check_mpi(MPI_Reduce_scatter_block(input.raw(), output.raw(), static_cast<int>(elements), type,
                                       mpi_op(op), handle_->comm),
              "MPI_Reduce_scatter_block");
    return;
  }
  // MPI reduces no derived types, so long blocks go piece by piece to the rank that keeps them.
  for (int root = 0; root < size_; ++root) {
    auto* result = static_cast<std::byte*>(output.raw());
    for_each_piece(input, root * elements, elements, options_.message_elements,
                   [&](void* data, int count) {
                     check_mpi(MPI_Reduce(data, rank_ == root ? result : nullptr, count, type,
                                          mpi_op(op), root, handle_->comm),
                               "MPI_Reduce");
                     result += static_cast<std::size_t>(count) * size_of(output.dtype());
                   });
  }
}

void MpiCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  const MpiBlock block(input.dtype(), input.elements() / size_, size_, options_.message_elements);
  check_mpi(MPI_Alltoall(input.raw(), block.count(), block.type(), output.raw(), block.count(),
                         block.type(), handle_->comm),
            "MPI_Alltoall");
}

void MpiCommunicator::do_barrier() { check_mpi(MPI_Barrier(handle_->comm), "MPI_Barrier"); }

}  // namespace tandem
