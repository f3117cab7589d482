#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.h"

namespace tandem {

/// "4 ranks", or, of processes that carry several each, "4 ranks folded into 2 processes".
std::string rank_count_text(int processes, int folded);

/// Where one rank runs.
struct RankPlace {
  std::string host;     ///< host name, for people
  std::string host_id;  ///< equal for ranks of one host, different otherwise; never shown
  std::string device;   ///< the GPU's UUID; empty on a CPU, whose device is then the host
};

/// The place of this process: host name, and boot id beside it, so that neither two machines that
/// share a name nor two named containers of one machine are taken for one host.
RankPlace this_place(std::string device = {});

/// How the ranks of a communicator lie on hosts and devices. Grouping is by what each rank says of
/// itself, never by arithmetic on rank numbers: launchers number ranks as they please.
///
/// Hosts and devices are numbered in the order of their lowest rank; rank lists ascend. Every rank
/// holds the same tables.
class RankTopology {
 public:
  /// Collective: gathers every rank's place.
  static RankTopology gather(Communicator& communicator, const RankPlace& mine = this_place());

  /// From known places, one for each rank; `rank` is the caller's.
  RankTopology(std::vector<RankPlace> places, int rank);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(places_.size()); }

  int hosts() const { return static_cast<int>(hosts_.size()); }
  int host_of(int rank) const;
  const std::string& host_name(int host) const;
  const std::vector<int>& ranks_on_host(int host) const;
  /// This rank's place among those of its host, and their number.
  int local_rank() const { return position(host_of(rank_), hosts_); }
  int local_size() const;

  /// Devices: the GPUs in use, and each host that has ranks without one.
  int devices() const { return static_cast<int>(devices_.size()); }
  int device_of(int rank) const;
  const std::vector<int>& ranks_on_device(int device) const;
  /// The GPU's UUID; empty of a host's ranks without one.
  const std::string& device_name(int device) const;
  /// This rank's place among the co-located ones of its device, and their number. The first is the
  /// device's leader.
  int colocated_rank() const { return position(device_of(rank_), devices_); }
  int colocated_size() const;

  /// "4 ranks on 2 hosts: node-a (ranks 0 and 1), node-b (ranks 2 and 3)". Where each rank here is
  /// a process that carries several: "8 ranks folded into 4 processes on 2 hosts: node-a (processes
  /// 0 and 1), …".
  std::string text(int folded = 1) const;
  /// "rank 1 on node-a, GPU-...; rank 3 on node-b, GPU-..." of these ranks.
  std::string places_text(std::span<const int> ranks) const;

 private:
  using Groups = std::vector<std::vector<int>>;
  int position(int group, const Groups& groups) const;

  std::vector<RankPlace> places_;
  int rank_;
  std::vector<int> host_of_;
  std::vector<int> device_of_;
  Groups hosts_;
  Groups devices_;
};

}  // namespace tandem
