#include "parallel/mpi/ranks_on_host.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/process_table.h"
#include "base/text.h"
#include "parallel/gather_text.h"
#include "parallel/placement/launched_job.h"

namespace tandem {
namespace {

/// Reads the environment that another process was started with.
class OthersEnvironment {
 public:
  explicit OthersEnvironment(pid_t process) : words_(environment_of(process)) {}

  const char* operator()(std::string_view name) const {
    for (const std::string& word : words_) {
      if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') {
        return word.c_str() + name.size() + 1;
      }
    }
    return nullptr;
  }

 private:
  std::vector<std::string> words_;
};

/// What PMIx, which Open MPI and Slurm use, tells every process of a job in its environment.
constexpr const char* job_variable = "PMIX_NAMESPACE";
constexpr const char* rank_variable = "PMIX_RANK";

std::optional<int> rank_in(const OthersEnvironment& environment, const std::string& job) {
  const char* const its = environment(job_variable);
  if (its == nullptr || its != job) return std::nullopt;
  return environment_number(environment, rank_variable);
}

/// The one GPU that CUDA shows to a process, by its UUID; empty where that does not say.
std::string gpu_in(const OthersEnvironment& environment) {
  const char* const visible = environment("CUDA_VISIBLE_DEVICES");
  const std::string_view gpu = visible == nullptr ? "" : visible;
  const bool is_one = (gpu.starts_with("GPU-") || gpu.starts_with("MIG-")) &&
                      gpu.find(',') == std::string_view::npos;
  return std::string(is_one ? gpu : "");
}

/// "ranks 0 and 1 on node-a, GPU-a, and rank 2 on node-a, GPU-b".
std::string place_text(const std::vector<int>& some, const std::map<int, std::string>& gpus,
                       const std::string& host) {
  std::map<std::string, std::vector<int>> by_gpu;
  for (const int rank : some) by_gpu[gpus.contains(rank) ? gpus.at(rank) : ""].push_back(rank);
  std::vector<std::string> texts;
  texts.reserve(by_gpu.size());
  for (const auto& [gpu, ranks] : by_gpu) {
    texts.push_back(
        fmt::format("{} on {}{}{}", ranks_text(ranks), host, gpu.empty() ? "" : ", ", gpu));
  }
  return join(texts, ", and ");
}

}  // namespace

RanksOnHost ranks_on_host(const std::string& job, const char* thread) {
  if (job.empty()) return {};
  struct Rank {
    bool has_come = false;
    bool stopped = false;
  };
  std::map<int, Rank> ranks;
  RanksOnHost found;
  for (const pid_t process : all_processes()) {
    const OthersEnvironment environment(process);
    const std::optional<int> number = rank_in(environment, job);
    if (!number || !is_on_this_host(process)) continue;
    // What starts and watches a rank carries its number, and what it has started itself: where one
    // of them has come it is the rank.
    Rank& rank = ranks[*number];
    if (has_thread(process, thread)) {
      rank = {.has_come = true, .stopped = is_stopped(process)};
    } else if (!rank.has_come) {
      rank.stopped |= is_stopped(process);
    }
    // The rank's own process is the one that was started last, and shows the GPU that it is for.
    found.gpus[*number] = gpu_in(environment);
  }
  for (const auto& [number, rank] : ranks) {
    (rank.stopped ? found.stopped : rank.has_come ? found.waiting : found.coming).push_back(number);
  }
  return found;
}

std::string whom_text(const RanksOnHost& ranks, const std::string& host) {
  std::vector<std::string> whom;
  const auto add = [&](const std::vector<int>& some, const char* one, const char* several) {
    if (some.empty()) return;
    whom.push_back(fmt::format("{}, which {}", place_text(some, ranks.gpus, host),
                               some.size() == 1 ? one : several));
  };
  add(ranks.stopped, "is stopped", "are stopped");
  add(ranks.coming, "has not come to it", "have not come to it");
  return join(whom, ", and for ");
}

}  // namespace tandem
