#pragma once

#include <mpi.h>

#include <string_view>
#include <vector>

#include "parallel/bf16_sum.h"
#include "parallel/communicator.h"
#include "parallel/mpi/mpi_watch.h"

namespace tandem {

/// An all_reduce_bf16_async() over MPI, of two exchanges between ranks. The second begins when the
/// first is done here, at another time on each rank; so both are of messages with tags of their
/// own, not of collectives, which all ranks would have to begin in one order.
class MpiBf16Sum final : public Request {
 public:
  struct Link {
    MpiWatch& watch;
    MPI_Comm comm;
    int rank;
    int ranks;
    std::int64_t message_elements;  ///< of the longest message
  };

  /// Operation number `n`, from 0, uses tag_of(n) and the next one. MPI promises tags up to 32767;
  /// so many operations are never under way at once.
  static int tag_of(std::int64_t n) { return 1 + 2 * static_cast<int>(n % 16'000); }

  /// Begins it. Tensors as of Communicator::all_reduce_bf16_async().
  MpiBf16Sum(const Link& link, int tag, const Tensor& tensor, const Tensor& scratch,
             std::string_view label);

  bool test() override;
  void wait() override;

 private:
  enum class Stage { exchanging, gathering, done };

  /// Posts what goes to and comes from every other rank at this stage.
  void post_messages();
  /// What follows an exchange that is done.
  void advance();

  Link link_;
  int tag_;
  Bf16SumLayout layout_;
  float* values_;
  Tensor packed_;    // this rank's elements by shard, later the sums
  Tensor received_;  // this rank's shard of every rank's elements
  std::string_view label_;
  Stage stage_ = Stage::exchanging;
  std::vector<MPI_Request> requests_;
};

}  // namespace tandem
