#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

// A library that a test preloads into the ranks of a job: made-up GPUs, as far as a rank comes
// before it compares with the others what it found, and versions of CUDA's libraries.
//
//   $TANDEM_GPUS              how many GPUs every rank sees; where it is not set, one
//   $TANDEM_DRIVER_VERSION    the CUDA that the driver supports, as CUDA writes it: 12040; where it
//                             is not set, the toolkit's
//   $TANDEM_CAPABILITY        the GPUs' compute capability, 75 for 7.5; where it is not set, 9.0
//   $TANDEM_KERNEL_IMAGE      "none": the GPUs are of a kind that the program was not built for
//   $TANDEM_NEWER_ON_RANK_1   what rank 1 has a newer version of: "CUDA", "cuDNN", "cuBLASLt",
//                             "NCCL" or "capability"

namespace {

int driver() {
  const char* const version = std::getenv("TANDEM_DRIVER_VERSION");
  return version == nullptr ? CUDART_VERSION : std::atoi(version);
}

int gpus() {
  const char* const number = std::getenv("TANDEM_GPUS");
  return number == nullptr ? 1 : std::atoi(number);
}

/// As CUDA's runtime has it, where minor versions are compatible.
bool driver_is_too_old() { return driver() / 1000 < CUDART_VERSION / 1000; }

/// Whether this is rank 1, which has a newer version of `what`.
bool is_newer(std::string_view what) {
  const char* const newer = std::getenv("TANDEM_NEWER_ON_RANK_1");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return newer != nullptr && newer == what && rank != nullptr && std::string_view(rank) == "1";
}

/// What stands for a stream and for the libraries' handles, which nothing is done with.
int g_handle = 0;

template <typename Handle>
Handle made_up() {
  return reinterpret_cast<Handle>(&g_handle);
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = is_newer("CUDA") ? 13010 : 13000;
  return cudaSuccess;
}

std::size_t cudnnGetVersion() { return is_newer("cuDNN") ? 91901 : 91900; }

std::size_t cublasLtGetVersion() { return is_newer("cuBLASLt") ? 130101 : 130100; }

ncclResult_t ncclGetVersion(int* version) {
  *version = is_newer("NCCL") ? 22810 : 22809;
  return ncclSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = driver_is_too_old() ? 0 : gpus();
  return driver_is_too_old() ? cudaErrorInsufficientDriver : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device);
  std::snprintf(properties->name, sizeof properties->name, "Made-up GPU");
  const char* const capability = std::getenv("TANDEM_CAPABILITY");
  const int number = capability == nullptr ? 90 : std::atoi(capability);
  properties->major = number / 10;
  properties->minor = number % 10 + (is_newer("capability") ? 1 : 0);
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = 1U << 30U;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {};
  return std::getenv("TANDEM_KERNEL_IMAGE") == nullptr ? cudaSuccess
                                                       : cudaErrorNoKernelImageForDevice;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int /*flags*/,
                                         int /*priority*/) {
  *stream = made_up<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = made_up<cudnnHandle_t>();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t /*handle*/) { return CUDNN_STATUS_SUCCESS; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = made_up<cublasLtHandle_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }

}  // extern "C"
