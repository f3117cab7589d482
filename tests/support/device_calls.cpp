#include "support/device_calls.h"

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "support/function_behind.h"

namespace {

std::atomic<bool> counting{false};
std::mutex mutex;  // guards what follows
tandem::DeviceCalls calls;

void count(const char* name) {
  if (!counting) return;
  const std::lock_guard<std::mutex> lock(mutex);
  ++calls[name];
}

}  // namespace

// Takes the place of a library's function, with names for its arguments in the order of its
// parameters.
#define TANDEM_COUNTED(Result, name, parameters, ...)                    \
  extern "C" Result name parameters {                                    \
    static auto* const call = function_behind<Result parameters>(#name); \
    count(#name);                                                        \
    return call(__VA_ARGS__);                                            \
  }
#define TANDEM_COUNTED_CUDA(name, parameters, ...) \
  TANDEM_COUNTED(cudaError_t, name, parameters, __VA_ARGS__)

// They hold the host up.

TANDEM_COUNTED_CUDA(cudaDeviceSynchronize, ())
TANDEM_COUNTED_CUDA(cudaStreamSynchronize, (cudaStream_t stream), stream)
TANDEM_COUNTED_CUDA(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind), to,
                    from, bytes, kind)
TANDEM_COUNTED_CUDA(cudaMemcpy2D,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t height, cudaMemcpyKind kind),
                    to, to_pitch, from, from_pitch, width, height, kind)
TANDEM_COUNTED_CUDA(cudaMemcpyToSymbol,
                    (const void* to, const void* from, size_t bytes, size_t at,
                     cudaMemcpyKind kind),
                    to, from, bytes, at, kind)
TANDEM_COUNTED_CUDA(cudaMemcpyFromSymbol,
                    (void* to, const void* from, size_t bytes, size_t at, cudaMemcpyKind kind), to,
                    from, bytes, at, kind)
TANDEM_COUNTED_CUDA(cudaMemset, (void* memory, int value, size_t bytes), memory, value, bytes)
TANDEM_COUNTED_CUDA(cudaMemset2D,
                    (void* memory, size_t pitch, int value, size_t width, size_t height), memory,
                    pitch, value, width, height)

extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  static auto* const query = function_behind<cudaError_t(cudaEvent_t)>("cudaEventQuery");
  static auto* const synchronize =
      function_behind<cudaError_t(cudaEvent_t)>("cudaEventSynchronize");
  count("cudaEventSynchronize");
  if (query(event) == cudaErrorNotReady) {
    (void)cudaGetLastError();  // that is an answer, no error
    count(tandem::event_waits);
  }
  return synchronize(event);
}

// They ask.

TANDEM_COUNTED_CUDA(cudaEventQuery, (cudaEvent_t event), event)
TANDEM_COUNTED_CUDA(cudaStreamQuery, (cudaStream_t stream), stream)

// They allocate and free.

TANDEM_COUNTED_CUDA(cudaMalloc, (void** memory, size_t bytes), memory, bytes)
TANDEM_COUNTED_CUDA(cudaMallocPitch, (void** memory, size_t* pitch, size_t width, size_t height),
                    memory, pitch, width, height)
TANDEM_COUNTED_CUDA(cudaMallocManaged, (void** memory, size_t bytes, unsigned int flags), memory,
                    bytes, flags)
TANDEM_COUNTED_CUDA(cudaMallocAsync, (void** memory, size_t bytes, cudaStream_t stream), memory,
                    bytes, stream)
TANDEM_COUNTED_CUDA(cudaMallocFromPoolAsync,
                    (void** memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), memory,
                    bytes, pool, stream)
TANDEM_COUNTED_CUDA(cudaMallocHost, (void** memory, size_t bytes), memory, bytes)
TANDEM_COUNTED_CUDA(cudaHostAlloc, (void** memory, size_t bytes, unsigned int flags), memory, bytes,
                    flags)
TANDEM_COUNTED_CUDA(cudaHostRegister, (void* memory, size_t bytes, unsigned int flags), memory,
                    bytes, flags)
TANDEM_COUNTED_CUDA(cudaHostUnregister, (void* memory), memory)
TANDEM_COUNTED_CUDA(cudaFree, (void* memory), memory)
TANDEM_COUNTED_CUDA(cudaFreeAsync, (void* memory, cudaStream_t stream), memory, stream)
TANDEM_COUNTED_CUDA(cudaFreeHost, (void* memory), memory)

// They make what work needs, and end it.

TANDEM_COUNTED_CUDA(cudaStreamCreate, (cudaStream_t * stream), stream)
TANDEM_COUNTED_CUDA(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags), stream,
                    flags)
TANDEM_COUNTED_CUDA(cudaStreamCreateWithPriority,
                    (cudaStream_t * stream, unsigned int flags, int priority), stream, flags,
                    priority)
TANDEM_COUNTED_CUDA(cudaStreamDestroy, (cudaStream_t stream), stream)
TANDEM_COUNTED_CUDA(cudaEventCreate, (cudaEvent_t * event), event)
TANDEM_COUNTED_CUDA(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), event,
                    flags)
TANDEM_COUNTED_CUDA(cudaEventDestroy, (cudaEvent_t event), event)
TANDEM_COUNTED_CUDA(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
                    stream, mode)
TANDEM_COUNTED_CUDA(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), stream, graph)
TANDEM_COUNTED_CUDA(cudaGraphInstantiate,
                    (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags), made,
                    graph, flags)
TANDEM_COUNTED_CUDA(cudaGraphInstantiateWithFlags,
                    (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags), made,
                    graph, flags)
TANDEM_COUNTED_CUDA(cudaGraphInstantiateWithParams,
                    (cudaGraphExec_t * made, cudaGraph_t graph, cudaGraphInstantiateParams* params),
                    made, graph, params)
TANDEM_COUNTED_CUDA(cudaGraphExecUpdate,
                    (cudaGraphExec_t made, cudaGraph_t graph,
                     cudaGraphExecUpdateResultInfo* result),
                    made, graph, result)
TANDEM_COUNTED_CUDA(cudaGraphUpload, (cudaGraphExec_t made, cudaStream_t stream), made, stream)
TANDEM_COUNTED_CUDA(cudaGraphExecDestroy, (cudaGraphExec_t made), made)
TANDEM_COUNTED_CUDA(cudaGraphDestroy, (cudaGraph_t graph), graph)

// They give the device work. Where <<<>>> stands, nvcc calls __cudaLaunchKernel from CUDA 13 on,
// and cudaLaunchKernel before.

TANDEM_COUNTED_CUDA(cudaGraphLaunch, (cudaGraphExec_t made, cudaStream_t stream), made, stream)
TANDEM_COUNTED_CUDA(cudaLaunchKernel,
                    (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                     cudaStream_t stream),
                    kernel, grid, block, arguments, shared, stream)
TANDEM_COUNTED_CUDA(__cudaLaunchKernel,
                    (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                     cudaStream_t stream),
                    kernel, grid, block, arguments, shared, stream)
TANDEM_COUNTED_CUDA(cudaLaunchKernelExC,
                    (const cudaLaunchConfig_t* config, const void* kernel, void** arguments),
                    config, kernel, arguments)
TANDEM_COUNTED_CUDA(cudaLaunchCooperativeKernel,
                    (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                     cudaStream_t stream),
                    kernel, grid, block, arguments, shared, stream)
TANDEM_COUNTED_CUDA(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data),
                    stream, function, data)
TANDEM_COUNTED_CUDA(cudaStreamAddCallback,
                    (cudaStream_t stream, cudaStreamCallback_t function, void* data,
                     unsigned int flags),
                    stream, function, data, flags)
TANDEM_COUNTED_CUDA(cudaMemcpyAsync,
                    (void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    to, from, bytes, kind, stream)
TANDEM_COUNTED_CUDA(cudaMemcpy2DAsync,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                    to, to_pitch, from, from_pitch, width, height, kind, stream)
TANDEM_COUNTED_CUDA(cudaMemsetAsync, (void* memory, int value, size_t bytes, cudaStream_t stream),
                    memory, value, bytes, stream)
TANDEM_COUNTED_CUDA(cudaMemset2DAsync,
                    (void* memory, size_t pitch, int value, size_t width, size_t height,
                     cudaStream_t stream),
                    memory, pitch, value, width, height, stream)
TANDEM_COUNTED(cudnnStatus_t, cudnnBackendExecute,
               (cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                cudnnBackendDescriptor_t variants),
               handle, plan, variants)
TANDEM_COUNTED(cublasStatus_t, cublasLtMatmul,
               (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                cudaStream_t stream),
               handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
               algorithm, workspace, workspace_bytes, stream)

// NCCL's, which give the device work, wait for it and for other ranks, or ask how that goes.

#define TANDEM_COUNTED_NCCL(name, parameters, ...) \
  TANDEM_COUNTED(ncclResult_t, name, parameters, __VA_ARGS__)

TANDEM_COUNTED_NCCL(ncclGetUniqueId, (ncclUniqueId * id), id)
TANDEM_COUNTED_NCCL(ncclCommInitRankConfig,
                    (ncclComm_t * made, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
                    made, ranks, id, rank, config)
TANDEM_COUNTED_NCCL(ncclCommFinalize, (ncclComm_t group), group)
TANDEM_COUNTED_NCCL(ncclCommDestroy, (ncclComm_t group), group)
TANDEM_COUNTED_NCCL(ncclCommAbort, (ncclComm_t group), group)
TANDEM_COUNTED_NCCL(ncclCommGetAsyncError, (ncclComm_t group, ncclResult_t* state), group, state)
TANDEM_COUNTED_NCCL(ncclGroupStart, ())
TANDEM_COUNTED_NCCL(ncclGroupEnd, ())
TANDEM_COUNTED_NCCL(ncclSend,
                    (const void* data, size_t elements, ncclDataType_t type, int to,
                     ncclComm_t group, cudaStream_t stream),
                    data, elements, type, to, group, stream)
TANDEM_COUNTED_NCCL(ncclRecv,
                    (void* data, size_t elements, ncclDataType_t type, int from, ncclComm_t group,
                     cudaStream_t stream),
                    data, elements, type, from, group, stream)
TANDEM_COUNTED_NCCL(ncclBroadcast,
                    (const void* from, void* to, size_t elements, ncclDataType_t type, int root,
                     ncclComm_t group, cudaStream_t stream),
                    from, to, elements, type, root, group, stream)
TANDEM_COUNTED_NCCL(ncclReduce,
                    (const void* from, void* to, size_t elements, ncclDataType_t type,
                     ncclRedOp_t how, int root, ncclComm_t group, cudaStream_t stream),
                    from, to, elements, type, how, root, group, stream)
TANDEM_COUNTED_NCCL(ncclAllReduce,
                    (const void* from, void* to, size_t elements, ncclDataType_t type,
                     ncclRedOp_t how, ncclComm_t group, cudaStream_t stream),
                    from, to, elements, type, how, group, stream)
TANDEM_COUNTED_NCCL(ncclReduceScatter,
                    (const void* from, void* to, size_t elements, ncclDataType_t type,
                     ncclRedOp_t how, ncclComm_t group, cudaStream_t stream),
                    from, to, elements, type, how, group, stream)
TANDEM_COUNTED_NCCL(ncclAllGather,
                    (const void* from, void* to, size_t elements, ncclDataType_t type,
                     ncclComm_t group, cudaStream_t stream),
                    from, to, elements, type, group, stream)

// The driver's are no symbols of the program: it asks the runtime for their addresses, and gets
// those of functions that count. A runtime's and a library's own calls of the driver go by
// addresses that each asks the driver for; of them the functions above tell.

#define TANDEM_COUNTED_DRIVER(name, parameters, ...) \
  decltype(&name) driver_##name = nullptr;           \
  CUresult CUDAAPI counted_##name parameters {       \
    count(#name);                                    \
    return driver_##name(__VA_ARGS__);               \
  }

namespace {

TANDEM_COUNTED_DRIVER(cuMemGetAddressRange, (CUdeviceptr * begin, size_t* bytes, CUdeviceptr at),
                      begin, bytes, at)
TANDEM_COUNTED_DRIVER(cuStreamBatchMemOp,
                      (CUstream stream, unsigned int operations,
                       CUstreamBatchMemOpParams* parameters, unsigned int flags),
                      stream, operations, parameters, flags)

template <typename Function>
void stand_in(Function* counted, Function*& driver, void** found) {
  driver = reinterpret_cast<Function*>(*found);
  *found = reinterpret_cast<void*>(counted);
}

void count_from_here_on(std::string_view name, void** found) {
  if (*found == nullptr) return;
  if (name == "cuMemGetAddressRange") {
    stand_in(&counted_cuMemGetAddressRange, driver_cuMemGetAddressRange, found);
  } else if (name == "cuStreamBatchMemOp") {
    stand_in(&counted_cuStreamBatchMemOp, driver_cuStreamBatchMemOp, found);
  }
}

}  // namespace

#define TANDEM_COUNTED_LOOK_UP(name, parameters, ...)                         \
  extern "C" cudaError_t name parameters {                                    \
    static auto* const call = function_behind<cudaError_t parameters>(#name); \
    count(#name);                                                             \
    const cudaError_t error = call(__VA_ARGS__);                              \
    if (error == cudaSuccess) count_from_here_on(symbol, found);              \
    return error;                                                             \
  }

// A toolkit has one of the two, or both.
TANDEM_COUNTED_LOOK_UP(cudaGetDriverEntryPoint,
                       (const char* symbol, void** found, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* result),
                       symbol, found, flags, result)
TANDEM_COUNTED_LOOK_UP(cudaGetDriverEntryPointByVersion,
                       (const char* symbol, void** found, unsigned int version,
                        unsigned long long flags, cudaDriverEntryPointQueryResult* result),
                       symbol, found, version, flags, result)

#undef TANDEM_COUNTED_LOOK_UP
#undef TANDEM_COUNTED_DRIVER
#undef TANDEM_COUNTED_NCCL
#undef TANDEM_COUNTED_CUDA
#undef TANDEM_COUNTED

namespace tandem {

void count_device_calls() {
  const std::lock_guard<std::mutex> lock(mutex);
  calls.clear();
  counting = true;
}

DeviceCalls counted_device_calls() {
  counting = false;
  const std::lock_guard<std::mutex> lock(mutex);
  return calls;
}

}  // namespace tandem
