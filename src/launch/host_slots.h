#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/gpu_list.h"
#include "launch/core_share.h"

namespace tandem {

/// What a launched job asks of each host, told to the bootstrap of every process.
struct SlotRequest {
  std::string gpus = "all";   ///< "all", "none", a number, or indices and UUIDs with commas between
  int processes_per_gpu = 1;  ///< or per host, where it computes on CPUs
  int sm_percent = 0;         ///< of each process, 1 to 100; 0: not limited
  bool reuse_mps = false;     ///< the user's running MPS daemon, instead of a private one
  bool oversubscribe = false;  ///< more processes on CPUs than a host has are meant
};

/// Where one process of a host runs.
struct Slot {
  std::string gpu{};       ///< the UUID; empty on a CPU
  std::string gpu_name{};  ///< "NVIDIA H200"
  /// Which of the host's MPS daemons it belongs to, counted from 0; -1: none.
  int daemon = -1;
  CpuSet cpus{};  ///< that it is bound to
};

/// A host's processes in the order of their local ranks.
struct HostSlots {
  std::vector<Slot> slots;
  /// CUDA_VISIBLE_DEVICES of each MPS daemon: one for all whole GPUs of a host, and one for
  /// each MIG instance, since an MPS daemon serves one instance alone.
  std::vector<std::string> daemons;
};

/// The GPUs that `gpus` of a SlotRequest chooses among a host's. Throws InputError where it names
/// one that is not there, or more than there are.
std::vector<GpuInfo> choose_gpus(const std::string& gpus, const GpuList& host);

/// For an earlier job's MPS daemon to let go of a GPU.
constexpr double free_seconds = 15.0;

/// The host's GPUs as `look` lists them, once nobody holds any of those that the request chooses
/// and that take one process at a time; or as they are after `seconds`. A job that has just ended
/// may still have an MPS server on them. Logs once that it waits.
GpuList list_once_free(const SlotRequest& request, const std::function<GpuList()>& look,
                       double seconds);

/// Warns, once for all of them, of GPUs on which other users' processes compute: the ranks get a
/// share of their time and memory alone.
void warn_of_other_users(const std::vector<GpuInfo>& gpus);

/// As many processes as the request needs on hosts that cannot be looked at from here, nothing else
/// of them being known. Throws InputError where it does not say how many GPUs they have, or where
/// no MPS server takes so many processes on a GPU.
int processes_of_other_hosts(const SlotRequest& request);

/// Most processes that may be clients of an MPS server on one GPU, by the driver's CUDA version,
/// and with any driver.
int mps_client_limit(int cuda_version);
constexpr int largest_mps_client_limit = 60;

/// Deals a host's GPUs and cores: processes_per_gpu neighbours on each GPU, each bound to its share
/// of the cores near that GPU. Throws InputError where the host cannot hold them: an MPS server
/// takes fewer clients, a GPU's compute mode is against it, or it has fewer CPUs than processes
/// that compute on them.
HostSlots deal_slots(const SlotRequest& request, const GpuList& host,
                     const std::vector<CpuSet>& cores, const std::filesystem::path& root = "/");

}  // namespace tandem
