#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include "base/process_place.h"
#include "device/cuda_check.h"
#include "device/cuda_version.h"
#include "device/open_context.h"
#include "parallel/nccl/nccl_check.h"
#include "parallel/rank_devices.h"

namespace tandem {
namespace {

std::string cuda_version() {
  int version = 0;
  TANDEM_CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return cuda_version_text(version);
}

/// "9.19.0" of 91900: how cuDNN, cuBLASLt and NCCL count.
std::string library_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), nullptr, "ncclGetVersion");
  return library_version_text(static_cast<std::size_t>(version));
}

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> uuids;
  for (const CudaDevice& device : cuda_devices()) uuids.push_back(device.uuid);
  return uuids;
}

AnyContext open_rank_gpu(Communicator& host) {
  const std::vector<std::string> gpus = visible_gpus();
  const int device = choose_device(host, gpus, gpu_problem());
  // Before it is opened, which may hang.
  set_process_device(gpus.at(static_cast<std::size_t>(device)));
  return open_gpu(device);
}

std::vector<DeviceFact> library_versions() {
  const std::string remedy = "install the same version on every host";
  return {{"CUDA", cuda_version(), remedy},
          {"cuDNN", library_version_text(cudnnGetVersion()), remedy},
          {"cuBLASLt", library_version_text(cublasLtGetVersion()), remedy},
          {"NCCL", nccl_version(), remedy}};
}

std::vector<DeviceFact> device_facts(const AnyContext& context) {
  const auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return {};
  const int capability = gpu->device().capability;
  std::vector<DeviceFact> facts = library_versions();
  // Kernels compiled for another architecture may round otherwise, so that replicas part.
  facts.push_back({"the GPUs' compute capability",
                   fmt::format("{}.{}", capability / 10, capability % 10),
                   "run on GPUs of one generation"});
  return facts;
}

std::string device_model(const AnyContext& context) {
  const auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return {};
  return gpu->device().name;
}

}  // namespace tandem
