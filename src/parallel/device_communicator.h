#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/any_context.h"
#include "parallel/communicator.h"
#include "parallel/exchange_kind.h"
#include "parallel/reduction_kind.h"

namespace tandem {

/// How GPUs exchange data: every rank uses the same. How much of them NCCL takes is in
/// ncclConfig_t; NCCL_MAX_CTAS and NCCL_CGA_CLUSTER_SIZE in the environment go before these.
struct DeviceLinkOptions {
  static constexpr int most_ctas = 64;
  static constexpr int largest_cga_cluster = 8;

  /// Blocks of threads that a collective may have, each of which takes a multiprocessor from
  /// computing; 0: as many as NCCL likes.
  int max_ctas = 0;
  /// Blocks of a collective that start together on neighbouring multiprocessors; absent: NCCL's
  /// choice, which is 4 on Hopper. Fewer start sooner beside kernels that fill the GPU.
  std::optional<int> cga_cluster_size{};
  /// `direct` is an InputError on all ranks where they cannot map each other's memory, or share
  /// GPUs without MPS. With one GPU there is nothing to exchange.
  ExchangeKind exchange = ExchangeKind::automatic;
};

/// The ranks of `host` as a communicator over the context's memory: Self for one rank, Nccl or
/// Direct for ranks with a GPU each, else Colocated or, on several GPUs, Hierarchical; null where
/// that memory is the host's, which `host` itself takes. Collective; both outlive it. `kind` flat:
/// Nccl or Direct, and an InputError on all ranks where two of them share a GPU; two_level:
/// Hierarchical for ranks with a GPU each too.
std::unique_ptr<Communicator> make_device_communicator(
    AnyContext& context, Communicator& host, const DeviceLinkOptions& options = {},
    ReductionKind kind = ReductionKind::automatic);

}  // namespace tandem
