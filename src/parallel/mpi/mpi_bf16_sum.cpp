#include "parallel/mpi/mpi_bf16_sum.h"

#include "parallel/mpi/mpi_error.h"
#include "parallel/mpi/mpi_types.h"

namespace tandem {
namespace {

std::uint16_t* bits_of(const Tensor& tensor) { return static_cast<std::uint16_t*>(tensor.raw()); }

}  // namespace

MpiBf16Sum::MpiBf16Sum(const Link& link, int tag, const Tensor& tensor, const Tensor& scratch,
                       std::string_view label)
    : link_(link),
      tag_(tag),
      layout_(tensor.elements(), link.ranks),
      values_(tensor.data<float>()),
      packed_(scratch.raw(), {layout_.padded()}, DType::bf16),
      received_(bits_of(packed_) + layout_.padded(), {layout_.padded()}, DType::bf16),
      label_(label) {
  pack_bf16(layout_, values_, bits_of(packed_));
  post_messages();
}

void MpiBf16Sum::post_messages() {
  const bool gathering = stage_ == Stage::gathering;
  const int tag = gathering ? tag_ + 1 : tag_;
  const MPI_Datatype type = mpi_type(DType::bf16);
  requests_.clear();
  for (int step = 1; step < link_.ranks; ++step) {
    // Each at another rank first.
    const int peer = (link_.rank + step) % link_.ranks;
    for_each_piece(gathering ? packed_ : received_, peer * layout_.shard, layout_.shard,
                   link_.message_elements, [&](void* data, int count) {
                     check_mpi(MPI_Irecv(data, count, type, peer, tag, link_.comm,
                                         &requests_.emplace_back(MPI_REQUEST_NULL)),
                               "MPI_Irecv");
                   });
    for_each_piece(packed_, (gathering ? link_.rank : peer) * layout_.shard, layout_.shard,
                   link_.message_elements, [&](void* data, int count) {
                     check_mpi(MPI_Isend(data, count, type, peer, tag, link_.comm,
                                         &requests_.emplace_back(MPI_REQUEST_NULL)),
                               "MPI_Isend");
                   });
  }
}

void MpiBf16Sum::advance() {
  if (stage_ == Stage::exchanging) {
    sum_bf16(layout_, link_.rank, bits_of(received_),
             bits_of(packed_) + link_.rank * layout_.shard);
    stage_ = Stage::gathering;
    post_messages();
  } else {
    unpack_bf16(layout_, bits_of(packed_), values_);
    stage_ = Stage::done;
  }
}

bool MpiBf16Sum::test() {
  while (stage_ != Stage::done) {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (done == 0) return false;
    advance();
  }
  return true;
}

void MpiBf16Sum::wait() {
  while (stage_ != Stage::done) {
    link_.watch.wait(requests_, "all_reduce_bf16_async", layout_.elements, label_);
    advance();
  }
}

}  // namespace tandem
