#include <algorithm>
#include <chrono>
#include <cuda/atomic>
#include <iterator>
#include <thread>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/pinned_memory.h"
#include "parallel/mapped/device_barrier.h"
#include "parallel/mapped/driver_functions.h"
#include "parallel/mapped/flag_barrier.h"
#include "parallel/mapped/members.h"
#include "parallel/priority_stream.h"
#include "parallel/write_mark.cuh"

namespace tandem {
namespace {

constexpr int channels = DeviceBarrier::channels;

/// What each process maps of every other. Words that several processes poll lie in lines of their
/// own.
struct Control {
  struct alignas(128) Word {
    std::uint32_t value;
  };
  // The first member's count for all, where kernels wait.
  Word arrivals[channels];
  Word failed;
  // Each member's own: barriers that it has begun, and its inbox, which is of flags, or of how many
  // barriers each member has begun.
  std::uint32_t begun[channels];
  std::uint32_t flags[channels][flag_count(most_members)];
};

/// Words through which host and device tell each other that the barriers are given up.
struct HostWords {
  std::uint32_t give_up;   // to the device
  std::uint32_t given_up;  // from the device
};

struct BarrierWords {
  Control* shared;
  Control* own;
  HostWords* host;
};

struct InboxWords {
  Control* controls[most_members];
  HostWords* host;
};

using SystemWord = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_system>;

__device__ void tell_host(HostWords* host) {
  SystemWord(host->given_up).store(1, cuda::memory_order_release);
}

/// Waits until the counter reaches `target`, or `failed` says that a process gives up. Differences
/// are taken modulo 2^32, so that the counter may wrap around.
__device__ void wait_for(SystemWord arrivals, std::uint32_t target, SystemWord failed,
                         HostWords* host) {
  // Between two looks at the host's memory.
  constexpr unsigned int rounds = 64;
  for (unsigned int round = 1;
       static_cast<std::int32_t>(arrivals.load(cuda::memory_order_acquire) - target) < 0; ++round) {
    if (round % rounds == 0 && SystemWord(host->give_up).load(cuda::memory_order_relaxed) != 0) {
      failed.store(1, cuda::memory_order_relaxed);
    }
    if (failed.load(cuda::memory_order_relaxed) != 0) return tell_host(host);
    __nanosleep(100);
  }
}

/// One thread, so that it finds a place beside whatever computes. Its arrival releases what the
/// stream did before, and what it waits for acquires what the others' streams did.
__global__ void barrier_kernel(BarrierWords words, int channel, std::uint32_t members,
                               OperationMark mark) {
  const std::uint32_t target = ++words.own->begun[channel] * members;
  SystemWord arrivals(words.shared->arrivals[channel].value);
  arrivals.fetch_add(1, cuda::memory_order_acq_rel);
  // Behind the arrival, which would wait for it: the host's memory is far.
  write_mark(mark);
  wait_for(arrivals, target, SystemWord(words.shared->failed.value), words.host);
}

/// A thread for each member, which tells that one of this one's arrival and waits for its.
__global__ void inbox_barrier_kernel(const __grid_constant__ InboxWords words, int member,
                                     int channel, OperationMark mark) {
  const auto other = static_cast<int>(threadIdx.x);
  Control* own = words.controls[member];
  const std::uint32_t target = own->begun[channel] + 1;
  __syncthreads();  // all have read it
  if (other == member) {
    own->begun[channel] = target;
    write_mark(mark);
    return;
  }
  SystemWord(words.controls[other]->flags[channel][member])
      .store(target, cuda::memory_order_release);
  wait_for(SystemWord(own->flags[channel][other]), target, SystemWord(own->failed.value),
           words.host);
}

/// Where no barrier of this process waits, to tell those of the others.
__global__ void fail_kernel(BarrierWords words) {
  SystemWord(words.shared->failed.value).store(1, cuda::memory_order_relaxed);
  tell_host(words.host);
}

/// As fail_kernel, a thread for each member.
__global__ void fail_inboxes_kernel(const __grid_constant__ InboxWords words) {
  SystemWord(words.controls[threadIdx.x]->failed.value).store(1, cuda::memory_order_relaxed);
  if (threadIdx.x == 0) tell_host(words.host);
}

/// Loads a kernel: once it is needed, loading may wait for what hangs.
template <typename Kernel>
void load(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  TANDEM_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
}

CUstreamBatchMemOpParams batched(const FlagStep& step, std::uint32_t* word) {
  CUstreamBatchMemOpParams operation{};
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  if (step.kind == FlagStep::write) {
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = address;
    operation.writeValue.value = step.value;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // behind a memory fence
  } else {
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = address;
    operation.waitValue.value = step.value;
    operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  }
  return operation;
}

}  // namespace

struct DeviceBarrier::Handle {
  Handle(CudaContext& device, DeviceOrder the_order, std::span<std::byte* const> memory,
         int this_member)
      : order(the_order), member(this_member), host(device), ones(device), counts(device) {
    for (std::byte* control : memory) controls.push_back(reinterpret_cast<Control*>(control));
    std::fill_n(ones.get()->flags, std::size(ones.get()->flags), 1U);
    words = {controls.front(), own(), host.get()};
    inboxes.host = host.get();
    std::copy(controls.begin(), controls.end(), inboxes.controls);
    load(fail_kernel);
    load(fail_inboxes_kernel);
  }

  Control* own() const { return controls[static_cast<std::size_t>(member)]; }
  int members() const { return static_cast<int>(controls.size()); }

  void enqueue_flags(cudaStream_t stream, int channel) {
    std::vector<CUstreamBatchMemOpParams> operations;
    for (const FlagStep& step : flag_barrier(members(), member, phase[channel])) {
      Control* inbox = controls[static_cast<std::size_t>(step.inbox)];
      operations.push_back(batched(step, &inbox->flags[channel][step.flag]));
    }
    phase[channel] = (phase[channel] + 1) % flag_barrier_phases;
    if (operations.empty()) return;
    check_driver(driver_functions().batch_mem_op(
                     stream, static_cast<unsigned int>(operations.size()), operations.data(), 0),
                 "cuStreamBatchMemOp");
  }

  /// Gives this process's streams what they await, until they are drained.
  void answer_flags(const std::function<bool()>& drained) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(5);
    while (!drained() && Clock::now() < end) {
      (void)cudaMemcpyAsync(own()->flags, ones.get()->flags, sizeof(Control::flags),
                            cudaMemcpyHostToDevice, aside.get());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// Brings what each member has begun to `counts`; false where that does not come in time.
  bool read_counts() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
    for (int m = 0; m < members(); ++m) {
      const cudaError_t status =
          cudaMemcpyAsync(counts.get()->begun[m], controls[static_cast<std::size_t>(m)]->begun,
                          sizeof(Control::begun), cudaMemcpyDeviceToHost, aside.get());
      if (status != cudaSuccess) return false;
    }
    cudaError_t status = cudaSuccess;
    while ((status = cudaStreamQuery(aside.get())) == cudaErrorNotReady && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return status == cudaSuccess;
  }

  struct Ones {
    std::uint32_t flags[channels * flag_count(most_members)];
  };
  struct Counts {
    std::uint32_t begun[most_members][channels];
  };
  static_assert(sizeof(Ones) == sizeof(Control::flags));

  DeviceOrder order;
  int member;
  std::vector<Control*> controls;
  PinnedMemory<HostWords> host;
  PinnedMemory<Ones> ones;
  PinnedMemory<Counts> counts;
  PriorityStream aside;  // goes on while the others wait
  BarrierWords words{};
  InboxWords inboxes{};
  int phase[channels] = {};
};

std::size_t DeviceBarrier::control_bytes() { return (sizeof(Control) + 255) / 256 * 256; }

DeviceBarrier::DeviceBarrier(CudaContext& context, DeviceOrder order,
                             std::span<std::byte* const> controls, int member) {
  TANDEM_CHECK(controls.size() <= most_members,
               "{} processes wait for each other on GPUs, at most {} can", controls.size(),
               most_members);
  context.activate();
  handle_ = std::make_unique<Handle>(context, order, controls, member);
}

DeviceBarrier::~DeviceBarrier() = default;

void DeviceBarrier::enqueue(CUstream_st* stream, int channel, const OperationMark& mark) {
  Handle& h = *handle_;
  if (h.order == DeviceOrder::flags) {
    write_mark(stream, mark);
    return h.enqueue_flags(stream, channel);
  }
  if (h.order == DeviceOrder::inboxes) {
    inbox_barrier_kernel<<<1, h.members(), 0, stream>>>(h.inboxes, h.member, channel, mark);
    return TANDEM_CUDA_CHECK_LAUNCH();
  }
  barrier_kernel<<<1, 1, 0, stream>>>(h.words, channel, static_cast<std::uint32_t>(h.members()),
                                      mark);
  TANDEM_CUDA_CHECK_LAUNCH();
}

void DeviceBarrier::end_operation(CUstream_st* stream, int channel) {
  Handle& h = *handle_;
  while (h.phase[channel] != 0) h.enqueue_flags(stream, channel);
}

std::vector<int> DeviceBarrier::late_members() {
  Handle& h = *handle_;
  if (h.order == DeviceOrder::flags) return {};
  const bool known = h.read_counts();
  (void)cudaGetLastError();  // an answer, or an error that is told by who waits
  if (!known) return {};
  const auto& begun = h.counts.get()->begun;
  std::vector<int> late;
  for (int m = 0; m < h.members(); ++m) {
    bool behind = false;
    for (int channel = 0; channel < channels; ++channel) {
      for (int other = 0; other < h.members(); ++other) {
        behind |= static_cast<std::int32_t>(begun[other][channel] - begun[m][channel]) > 0;
      }
    }
    if (behind) late.push_back(m);
  }
  return late;
}

bool DeviceBarrier::given_up() const {
  const HostWords* host = handle_->host.get();
  return static_cast<const volatile HostWords*>(host)->given_up != 0;
}

void DeviceBarrier::give_up(const std::function<bool()>& drained) noexcept {
  Handle& h = *handle_;
  volatile HostWords* host = h.host.get();
  host->give_up = 1;
  if (h.order == DeviceOrder::flags) {
    host->given_up = 1;
    return h.answer_flags(drained);
  }
  // Fails where the device has failed, and then nothing waits there.
  if (h.order == DeviceOrder::inboxes) {
    fail_inboxes_kernel<<<1, h.members(), 0, h.aside.get()>>>(h.inboxes);
  } else {
    fail_kernel<<<1, 1, 0, h.aside.get()>>>(h.words);
  }
  (void)cudaGetLastError();
}

}  // namespace tandem
