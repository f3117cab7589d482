#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// Collective, over a host kind. The GPU that this rank takes, as an index into `visible`: the
/// UUIDs of the GPUs that this process sees, in CUDA's order. The ranks of a host choose in their
/// order, each the first GPU that it sees and that is not full. A GPU is full with one rank, or,
/// where the host has more ranks than its ranks together see GPUs, with an even share of them: four
/// ranks that see the same two GPUs take the first, the first, the second, the second; a rank to
/// which a launcher gave a GPU takes that one.
///
/// Throws the same InputError on all ranks where one sees no GPU, or where the ranks of a host are
/// more than its GPUs and no multiple of them. `problem`: why this process sees none, as a phrase,
/// where that is known (gpu_problem()).
int choose_device(Communicator& host, std::span<const std::string> visible,
                  std::string_view problem = {});

/// Throws InputError where two ranks compute on one GPU, which NCCL refuses.
void check_one_rank_per_device(const RankTopology& topology);

/// Collective, over a host kind: throws the same InputError on all ranks where GPUs of two ranks
/// are MIG instances of one card, `card` being where this rank's lies on its host's PCI bus
/// ("0000:3b:00"; empty: unknown). NCCL refuses these, and nothing else passes between them.
void check_one_instance_per_card(Communicator& host, const RankTopology& topology,
                                 const std::string& card);

/// Something that must be the same on every rank.
struct DeviceFact {
  std::string name;    ///< "cuDNN"
  std::string value;   ///< "9.19.0"
  std::string remedy;  ///< what to do where it differs
};

/// Collective, over a host kind: throws the same InputError on all ranks where the first fact that
/// differs does, naming which ranks on which hosts have what. The facts' names are the same
/// everywhere.
void check_same_facts(Communicator& host, std::span<const DeviceFact> facts);

/// Collective, over a host kind: what to warn of where the ranks' GPU models, given as texts,
/// differ, naming who has which; empty where they do not.
std::string mixed_models(Communicator& host, const std::string& model);

}  // namespace tandem
