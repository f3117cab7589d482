#include "device/cuda_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "device/choices_file.h"
#include "device/cuda_check.h"
#include "device/cuda_libraries.h"
#include "device/cuda_version.h"
#include "device/cudnn_parts.h"
#include "device/device_error.h"
#include "device/kernel_image.h"
#include "device/tune_setting.h"

namespace tandem {
namespace {

/// False also of a driver that does not say.
bool is_under_mps(int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, cudaDevAttrMpsEnabled, device) == cudaSuccess)
    return value != 0;
  static_cast<void>(cudaGetLastError());
  return false;
}

/// "GPU-12345678-..." from CUDA's 16 bytes, as nvidia-smi writes it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// 0: none is loaded.
int driver_version() {
  int driver = 0;
  TANDEM_CUDA_CHECK(cudaDriverGetVersion(&driver));
  return driver;
}

void require_driver() {
  const int driver = driver_version();
  if (driver == 0) {
    input_error("no NVIDIA driver is loaded; install one, or set train.device = \"cpu\"");
  }
  const std::string problem = driver_problem(driver, CUDART_VERSION);
  if (!problem.empty()) input_error("{}, or set train.device = \"cpu\"", problem);
}

/// Else cuDNN ends the process, or no plan is found, with words that name no library.
void require_cudnn() {
  if (missing_cudnn_part().empty()) return;
  input_error(
      "a part of cuDNN cannot be loaded: {}; install all of cuDNN 9, or set "
      "train.device = \"cpu\"",
      missing_cudnn_part());
}

CudaDevice read_device(int index) {
  require_driver();
  const int count = cuda_device_count();
  if (index < 0 || index >= count) {
    input_error("there is no CUDA device {}: {} seen; look at nvidia-smi and CUDA_VISIBLE_DEVICES",
                index, count);
  }
  require_cudnn();
  cudaDeviceProp properties{};
  TANDEM_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return {.index = index,
          .name = properties.name,
          .uuid = uuid_text(properties.uuid),
          .card = fmt::format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID,
                              properties.pciDeviceID),
          .capability = 10 * properties.major + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
          .under_mps = is_under_mps(index)};
}

/// Ampere's, whose tensor cores multiply bf16; cmake/Cuda.cmake leaves out older cards.
constexpr int least_capability = 80;

/// Else the first kernel fails, with words that name neither.
void require_kernels(const CudaDevice& device) {
  if (device.capability < least_capability) {
    input_error(
        "{} has compute capability {}.{}, and Tandem takes 8.0 or later: choose other GPUs by "
        "CUDA_VISIBLE_DEVICES, or set train.device = \"cpu\"",
        device.name, device.capability / 10, device.capability % 10);
  }
  if (has_kernel_image()) return;
  input_error(
      "{} has compute capability {}.{}, and Tandem was built for {}: build it where that GPU is "
      "seen, or with -DCMAKE_CUDA_ARCHITECTURES={}, or set train.device = \"cpu\"",
      device.name, device.capability / 10, device.capability % 10, built_architectures(),
      device.capability);
}

[[noreturn]] void fail(const std::string& message, bool memory_is_taken) {
  if (!memory_is_taken) throw SystemError(message);
  throw NoDeviceMemory(message +
                       "; the GPU's memory is taken: look in nvidia-smi by whom, end that or wait "
                       "for it, or take a smaller batch");
}

std::string kind_of(const CudaDevice& device) {
  return choices_kind(device.name, device.multiprocessors, cudnnGetVersion(), cublasLtGetVersion());
}

std::filesystem::path lender_of(const CudaDevice& device) {
  if (tune_setting() != "borrow") return {};
  return lending_choices_file(device.name, device.multiprocessors, cudnnGetVersion(),
                              cublasLtGetVersion());
}

/// A stream whose work goes before that of usual priority, which side queues have, and behind that
/// of the highest, which collectives have.
cudaStream_t make_stream() {
  int least = 0;
  int greatest = 0;
  TANDEM_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  TANDEM_CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, std::max(greatest, least - 1)));
  return stream;
}

/// Whether work on the device failed, or the device itself, and not the call alone: what the
/// process has there is then lost.
bool is_device_fault(cudaError_t status) {
  constexpr std::array faults{cudaErrorLaunchFailure,       cudaErrorIllegalAddress,
                              cudaErrorMisalignedAddress,   cudaErrorIllegalInstruction,
                              cudaErrorInvalidPc,           cudaErrorInvalidAddressSpace,
                              cudaErrorHardwareStackError,  cudaErrorAssert,
                              cudaErrorLaunchTimeout,       cudaErrorECCUncorrectable,
                              cudaErrorNvlinkUncorrectable, cudaErrorDevicesUnavailable,
                              cudaErrorMpsConnectionFailed, cudaErrorMpsRpcFailure,
                              cudaErrorMpsServerNotReady,   cudaErrorMpsClientTerminated,
                              cudaErrorExternalDevice,      cudaErrorUnknown};
  return std::ranges::find(faults, status) != faults.end();
}

}  // namespace

void cuda_failed(cudaError_t status, const char* expression, const char* file, int line) {
  (void)cudaGetLastError();  // else the next kernel's launch would be taken for it
  const std::string message =
      fmt::format("CUDA failed: {} ({}) in {} at {}:{}", cudaGetErrorString(status),
                  cudaGetErrorName(status), expression, file, line);
  if (is_device_fault(status)) throw DeviceError(message);
  fail(message, status == cudaErrorMemoryAllocation);
}

void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line) {
  fail(fmt::format("cuDNN failed: {} in {} at {}:{}", cudnnGetErrorString(status), expression, file,
                   line),
       status == CUDNN_STATUS_ALLOC_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
}

void cublas_failed(cublasStatus_t status, const char* expression, const char* file, int line) {
  fail(fmt::format("cuBLAS failed: {} in {} at {}:{}", cublasLtGetStatusString(status), expression,
                   file, line),
       status == CUBLAS_STATUS_ALLOC_FAILED);
}

CudaContext::Libraries::Libraries(const CudaDevice& device)
    : choices(choices_file(kind_of(device)), kind_of(device), lender_of(device)),
      device_(device.index) {
  TANDEM_CUDA_CHECK(cudaSetDevice(device_));
  require_kernels(device);
  stream = make_stream();
  TANDEM_CUDA_CHECK(cudnnCreate(&cudnn));
  TANDEM_CUDA_CHECK(cublasLtCreate(&cublas));
}

// What fails here failed before, and was said then.
CudaContext::Libraries::~Libraries() {
  (void)cudaSetDevice(device_);
  (void)cudaStreamSynchronize(stream);
  (void)cublasLtDestroy(cublas);
  (void)cudnnDestroy(cudnn);
  if (side_stream != nullptr) (void)cudaStreamDestroy(side_stream);
  (void)cudaStreamDestroy(stream);
}

CudaContext::CudaContext(int device)
    : device_(read_device(device)), libraries_(std::make_unique<Libraries>(device_)) {}
CudaContext::~CudaContext() = default;
CudaContext::CudaContext(CudaContext&&) noexcept = default;
CudaContext& CudaContext::operator=(CudaContext&&) noexcept = default;

void CudaContext::activate() const { TANDEM_CUDA_CHECK(cudaSetDevice(device_.index)); }

CUstream_st* CudaContext::stream() const { return libraries_->stream; }

CUstream_st* CudaContext::side_stream() {
  cudaStream_t& stream = libraries_->side_stream;
  if (stream == nullptr) {
    activate();
    TANDEM_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  return stream;
}

CudaStreamScope::CudaStreamScope(CudaContext& context, CUstream_st* stream)
    : context_(context), before_(std::exchange(context.libraries().stream, stream)) {}

CudaStreamScope::~CudaStreamScope() { context_.libraries().stream = before_; }

void CudaContext::synchronize() const {
  TANDEM_CUDA_CHECK(cudaStreamSynchronize(libraries_->stream));
}

void* CudaContext::allocate(std::size_t bytes) {
  activate();
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw OutOfMemory(fmt::format("out of memory on {}: {} could not be allocated, {} are free",
                                  device_.name, format_bytes(bytes), format_bytes(free_bytes())),
                      bytes);
  }
  TANDEM_CUDA_CHECK(status);
  return memory;
}

void CudaContext::deallocate(void* memory) noexcept {
  if (std::ranges::find(left_, memory) == left_.end()) (void)cudaFree(memory);
}

std::size_t CudaContext::free_bytes() const {
  activate();
  std::size_t free = 0;
  std::size_t total = 0;
  TANDEM_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

int cuda_device_count() {
  int count = 0;
  // Without a driver this is an error, and there are none.
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::string cuda_problem() {
  const int driver = driver_version();
  if (driver == 0) return {};
  if (std::string problem = driver_problem(driver, CUDART_VERSION); !problem.empty()) {
    return problem;
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  return status == cudaSuccess || status == cudaErrorNoDevice ? "" : cudaGetErrorString(status);
}

std::vector<CudaDevice> cuda_devices() {
  const int count = cuda_device_count();
  std::vector<CudaDevice> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) devices.push_back(read_device(index));
  return devices;
}

}  // namespace tandem
