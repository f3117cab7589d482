#include "launch/host_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace tandem {
namespace {

[[noreturn]] void no_such_gpu(const std::string& word, const std::vector<GpuInfo>& gpus) {
  std::vector<std::string> here;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    here.push_back(fmt::format("{} ({})", index, gpus[index].uuid));
  }
  if (here.empty()) {
    input_error("--gpus: no GPU '{}' here; there is none (--gpus none computes on the CPU)", word);
  }
  input_error("--gpus: no GPU '{}' here; there are {}", word, join(here, ", "));
}

[[noreturn]] void names_none(const std::string& gpus) {
  input_error("--gpus '{}' names none; give all, none, a number or a list", gpus);
}

/// What stands between commas; "1," is the list of GPU 1 alone.
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty()) all.push_back(word);
  }
  return all;
}

GpuInfo named_gpu(const std::string& word, const std::vector<GpuInfo>& gpus) {
  const std::vector<GpuInfo> found = visible_gpus_of(gpus, word.c_str());
  if (found.size() != 1) no_such_gpu(word, gpus);
  return found.front();
}

bool is_held(const GpuInfo& gpu) { return gpu.exclusive && gpu.busy; }

void check_compute_mode(const GpuInfo& gpu, const SlotRequest& request) {
  if (gpu.prohibited) {
    input_error(
        "{} ({}) is in compute mode 'prohibited': nobody may compute on it; choose others with "
        "--gpus, or ask its administrator",
        gpu.uuid, gpu.name);
  }
  if (is_held(gpu) && !request.reuse_mps) {
    input_error(
        "{} ({}) is in compute mode 'exclusive process', and a process holds it (another user's, "
        "or "
        "an MPS server: nvidia-smi shows which); wait for it, choose others with --gpus, or use "
        "your own MPS daemon with --reuse-mps",
        gpu.uuid, gpu.name);
  }
}

void check_clients(const SlotRequest& request, const GpuList& host) {
  const int limit = mps_client_limit(host.cuda_version);
  if (request.processes_per_gpu <= limit) return;
  input_error(
      "--ranks-per-gpu {}: CUDA MPS takes {} processes a GPU with this driver; ask for fewer, or "
      "use --colocation folded",
      request.processes_per_gpu, limit);
}

/// As with mpirun, whose word for it is the same. Hardware threads count: a core may have two.
void check_cpus(const SlotRequest& request, const std::vector<CpuSet>& cores) {
  std::size_t cpus = 0;
  for (const CpuSet& core : cores) cpus += core.size();
  if (request.oversubscribe || static_cast<std::size_t>(request.processes_per_gpu) <= cpus) return;
  input_error(
      "--ranks-per-gpu {}: the ranks compute on the CPU, and this host has {} CPU{} for them; ask "
      "for as many or fewer, use --colocation folded, or say with --oversubscribe that it is meant",
      request.processes_per_gpu, cpus, cpus == 1 ? "" : "s");
}

/// The MPS daemons of a host, as CUDA_VISIBLE_DEVICES of each.
class DaemonList {
 public:
  /// Puts a GPU under the daemon that serves it, a new one where there is none yet, and returns
  /// that one's index. Instances and whole GPUs may follow each other in any order, as on cards of
  /// which some are in MIG mode.
  int add(const GpuInfo& gpu) {
    if (!gpu.is_instance && of_whole_gpus_ >= 0) {
      visible_[static_cast<std::size_t>(of_whole_gpus_)] += "," + gpu.uuid;
      return of_whole_gpus_;
    }
    const int index = static_cast<int>(visible_.size());
    visible_.push_back(gpu.uuid);
    if (!gpu.is_instance) of_whole_gpus_ = index;
    return index;
  }
  std::vector<std::string> take() { return std::move(visible_); }

 private:
  std::vector<std::string> visible_;
  int of_whole_gpus_ = -1;  ///< the index of the one that they share; -1: none yet
};

/// Nothing passes between instances of one card, and NCCL refuses them.
void check_instances(const std::string& gpus, const std::vector<GpuInfo>& chosen) {
  for (std::size_t at = 0; at < chosen.size(); ++at) {
    const GpuInfo& gpu = chosen[at];
    const auto other = std::find_if(
        chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(at), [&](const GpuInfo& each) {
          return gpu.is_instance && each.is_instance && !gpu.bus_id.empty() &&
                 each.bus_id == gpu.bus_id;
        });
    if (other == chosen.begin() + static_cast<std::ptrdiff_t>(at)) continue;
    input_error(
        "--gpus {}: {} and {} are MIG instances of one card, which cannot exchange gradients; "
        "choose one instance of each card (--gpus with indices or UUIDs), or start a job on each",
        gpus, other->uuid, gpu.uuid);
  }
}

std::vector<GpuInfo> find_gpus(const std::string& gpus, const GpuList& host) {
  if (gpus == "none") return {};
  if (gpus == "all") return host.gpus;
  if (gpus.find(',') == std::string::npos) {
    if (const auto count = parse_number<std::size_t>(gpus)) {
      if (*count < 1 || *count > host.gpus.size()) {
        input_error(
            "--gpus {}: this host has {} GPU{}{}{}; {}", *count, host.gpus.size(),
            host.gpus.size() == 1 ? "" : "s", host.trouble.empty() ? "" : ": ", host.trouble,
            host.gpus.empty() ? "--gpus none computes on the CPU" : "ask for as many or fewer");
      }
      return {host.gpus.begin(), host.gpus.begin() + static_cast<std::ptrdiff_t>(*count)};
    }
  }
  std::vector<GpuInfo> chosen;
  for (const std::string& word : words_of(gpus)) {
    const GpuInfo gpu = named_gpu(word, host.gpus);
    if (std::ranges::any_of(chosen, [&](const GpuInfo& each) { return each.uuid == gpu.uuid; })) {
      input_error("--gpus {}: {} is named twice", gpus, gpu.uuid);
    }
    chosen.push_back(gpu);
  }
  if (chosen.empty()) names_none(gpus);
  return chosen;
}

}  // namespace

std::vector<GpuInfo> choose_gpus(const std::string& gpus, const GpuList& host) {
  std::vector<GpuInfo> chosen = find_gpus(gpus, host);
  check_instances(gpus, chosen);
  return chosen;
}

GpuList list_once_free(const SlotRequest& request, const std::function<GpuList()>& look,
                       double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (bool told = false;; told = true) {
    GpuList host = look();
    const std::vector<GpuInfo> gpus = choose_gpus(request.gpus, host);
    const auto held = std::ranges::find_if(gpus, is_held);
    if (held == gpus.end()) return host;
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= seconds) return host;
    if (!told) {
      log_info(
          "a process still holds {} ({}), which takes one at a time; waiting for it, {:.0f} s "
          "at most",
          held->uuid, held->name, seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void warn_of_other_users(const std::vector<GpuInfo>& gpus) {
  std::vector<std::string> shared;
  for (const GpuInfo& gpu : gpus) {
    if (gpu.processes_of_others == 0) continue;
    shared.push_back(fmt::format("{} process{} on {} ({})", gpu.processes_of_others,
                                 gpu.processes_of_others == 1 ? "" : "es", gpu.uuid, gpu.name));
  }
  if (shared.empty()) return;
  log_warning(
      "other users compute on GPUs of this job: {}; the ranks share them, or choose others with "
      "--gpus",
      join(shared, ", "));
}

int processes_of_other_hosts(const SlotRequest& request) {
  if (request.gpus == "none") return request.processes_per_gpu;
  if (request.gpus == "all") {
    input_error(
        "this host is none of the job's, so their GPUs cannot be counted from here; say how many "
        "each of them has: --gpus N, or --gpus none");
  }
  std::size_t gpus = words_of(request.gpus).size();
  if (request.gpus.find(',') == std::string::npos) {
    gpus = parse_number<std::size_t>(request.gpus).value_or(gpus);
  }
  if (gpus == 0) names_none(request.gpus);
  constexpr std::size_t most_gpus = 1024;
  if (gpus > most_gpus) {
    input_error("--gpus {}: no host has as many; give at most {}", request.gpus, most_gpus);
  }
  if (request.processes_per_gpu > largest_mps_client_limit) {
    input_error(
        "--ranks-per-gpu {}: CUDA MPS takes {} processes a GPU at most, with any driver; ask for "
        "fewer, or use --colocation folded",
        request.processes_per_gpu, largest_mps_client_limit);
  }
  return static_cast<int>(gpus) * request.processes_per_gpu;
}

int mps_client_limit(int cuda_version) {
  // NVIDIA's manual, "Client-Server Connection Limits": 60 from CUDA 13.1 on.
  constexpr int cuda_13_1 = 13010;
  return cuda_version >= cuda_13_1 ? largest_mps_client_limit : 48;
}

HostSlots deal_slots(const SlotRequest& request, const GpuList& host,
                     const std::vector<CpuSet>& cores, const std::filesystem::path& root) {
  const std::vector<GpuInfo> gpus = choose_gpus(request.gpus, host);
  const int each = request.processes_per_gpu;
  HostSlots result;
  std::vector<CpuSet> near;
  if (gpus.empty()) {
    check_cpus(request, cores);
    result.slots.resize(static_cast<std::size_t>(each));
    near.resize(static_cast<std::size_t>(each));
  }
  const bool mps = each > 1 && !gpus.empty();
  if (mps) check_clients(request, host);
  DaemonList daemons;
  for (const GpuInfo& gpu : gpus) {
    check_compute_mode(gpu, request);
    const int daemon = mps ? daemons.add(gpu) : -1;
    for (int process = 0; process < each; ++process) {
      result.slots.push_back({.gpu = gpu.uuid, .gpu_name = gpu.name, .daemon = daemon, .cpus = {}});
      near.push_back(cpus_near(gpu.bus_id, root));
    }
  }
  result.daemons = daemons.take();
  const std::vector<CpuSet> shares = share_cores(cores, near);
  for (std::size_t at = 0; at < shares.size(); ++at) result.slots[at].cpus = shares[at];
  return result;
}

}  // namespace tandem
