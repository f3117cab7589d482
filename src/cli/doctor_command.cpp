#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "base/folder_entries.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cli/commands.h"
#include "device/cudnn_parts.h"
#include "device/machine.h"
#include "device/open_context.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// One finding: what there is, or what its absence costs.
void report(std::string_view what, bool present, std::string_view text) {
  std::cout << fmt::format("{:<4}{:<12}{}\n", present ? "ok" : "--", what, text);
}

struct LibraryCloser {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

template <typename Function>
Function* symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library.get(), name));
}

void report_gpus() {
  int gpus = 0;
  for (const fs::path& gpu : entries_of("/proc/driver/nvidia/gpus").paths) {
    std::ifstream file(gpu / "information");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Model:")) report("GPU", true, line.substr(6));
    }
    ++gpus;
  }
  if (gpus == 0) report("GPU", false, "none seen");
}

void report_cuda() {
  const Library driver(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL));
  int version = 0;
  if (driver) {
    if (auto* get = symbol<int(int*)>(driver, "cuDriverGetVersion")) get(&version);
    report("CUDA", true, fmt::format("driver for CUDA {}.{}", version / 1000, version % 1000 / 10));
  } else {
    report("CUDA", false, "no driver (libcuda.so.1): no GPU can be used");
  }
  if (const std::string nvcc = program_on_path("nvcc"); !nvcc.empty()) {
    report("CUDA SDK", true, nvcc);
  } else {
    report("CUDA SDK", false, "no nvcc on PATH: CUDA code cannot be compiled here");
  }
  const Library cudnn(::dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL));
  if (const std::string& missing = missing_cudnn_part(); !missing.empty()) {
    report("cuDNN", false,
           fmt::format("a part cannot be loaded: {}: GPU layers cannot run", missing));
  } else if (auto* get = cudnn ? symbol<std::size_t()>(cudnn, "cudnnGetVersion") : nullptr) {
    const std::size_t number = get();
    report("cuDNN", true,
           fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100));
  } else {
    report("cuDNN", false, "no libcudnn.so.9: GPU layers cannot run");
  }
  const Library nccl(::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL));
  int number = 0;
  if (auto* get = nccl ? symbol<int(int*)>(nccl, "ncclGetVersion") : nullptr;
      get != nullptr && get(&number) == 0) {
    report("NCCL", true,
           fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100));
  } else {
    report("NCCL", false, "no libnccl.so.2: GPUs cannot exchange gradients");
  }
  if (const std::string mps = program_on_path("nvidia-cuda-mps-control"); !mps.empty()) {
    report("MPS", true, mps);
  } else {
    report("MPS", false, "no nvidia-cuda-mps-control on PATH: ranks of one GPU would take turns");
  }
}

int diagnose(const MpiSession& session) {
  const Machine machine = read_machine();
  report("machine", true,
         fmt::format("{}: {}, {} cores ({} for this process), {} NUMA node{}, {}", machine.hostname,
                     machine.cpu_model, machine.cores, machine.bound_cores, machine.numa_nodes,
                     machine.numa_nodes == 1 ? "" : "s", format_bytes(machine.memory_bytes)));
  if (machine.quota_cores > 0) {
    report("CPU quota", true,
           fmt::format("a control group leaves this process the time of {} CPUs: {} compute "
                       "threads at most by default",
                       machine.quota_cores, machine.usable_cores()));
  }
  report("oneDNN", true, onednn_version());
  report("MPI", true, mpi_library_version());
  if (const std::string mpirun = program_on_path("mpirun"); !mpirun.empty()) {
    report("mpirun", true, mpirun);
  } else {
    report("mpirun", false, "not on PATH: only one rank can be started (package openmpi-bin)");
  }
  if (session.distributed()) report("job", true, "this process was started by an MPI launcher");
  report_gpus();
  report_cuda();
  const std::string problem = gpu_problem();
  report(
      "backends", problem.empty(),
      built_with_cuda()
          ? fmt::format("CPU (oneDNN), CUDA (cuDNN, NCCL): {} GPUs can be used{}{}", usable_gpus(),
                        problem.empty() ? "" : ": ", problem)
          : "CPU (oneDNN). This build has no CUDA backend: GPUs, CUDA, cuDNN, NCCL and MPS, where "
            "listed above, stay unused; TANDEM_CUDA=ON ./quickstart.sh builds one");
  report("model zoo", true,
         fmt::format("{} models in {}", zoo_models().size(), model_zoo().string()));
  // Open MPI's mpirun wants to be told where the user is root.
  std::cout << fmt::format(
      "\n{} rank{} of one thread fit{} this machine: mpirun {}-n {} --bind-to none tandem train "
      "CONFIG\n",
      machine.usable_cores(), machine.usable_cores() == 1 ? "" : "s",
      machine.usable_cores() == 1 ? "s" : "", ::geteuid() == 0 ? "--allow-run-as-root " : "",
      machine.usable_cores());
  return 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what this machine has, what is missing and what that costs");
  command->callback([&chosen] { chosen = on_root(&diagnose); });
}

}  // namespace tandem
