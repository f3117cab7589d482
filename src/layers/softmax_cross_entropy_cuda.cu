#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "layers/softmax_cross_entropy.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
constexpr int sum_threads = 1024;
constexpr int warp = 32;

/// What one sample adds to the sums.
struct RowLoss {
  float loss;
  std::int32_t top1;
  std::int32_t top5;
  std::int32_t bad;  // its label or weight is out of range
};

struct Totals {
  double loss;
  std::int64_t top1;
  std::int64_t top5;
  std::int64_t first_bad;  // the first such sample; the batch where there is none
};
static_assert(sizeof(Totals) <= 256 && sizeof(RowLoss) == 16,
              "as softmax_cross_entropy_scratch() counts");

Totals* totals_in(std::byte* scratch) { return reinterpret_cast<Totals*>(scratch); }
RowLoss* rows_in(std::byte* scratch) { return reinterpret_cast<RowLoss*>(scratch + 256); }

template <typename T>
struct Problem {
  const T* logits;
  T* gradient;  // null where none is wanted
  const std::int32_t* labels;
  const std::int32_t* second_labels;  // null where nothing is mixed
  const float* weights;
  const float* gradient_scale;  // null for one
  std::int64_t batch;
  std::int64_t valid;
  int classes;
  float smoothing;
};

/// What a sample's target has beside the uniform part.
struct Label {
  int major;  // of the larger share
  int minor;  // of the rest; `major` again where there is none
  float major_share;
  float minor_share;
  bool bad;
};

template <typename T>
__device__ __forceinline__ Label label_of(const Problem<T>& problem, std::int64_t n) {
  const float certain = 1.0F - problem.smoothing;
  const auto outside = [&](int label) { return label < 0 || label >= problem.classes; };
  const int first = problem.labels[n];
  if (problem.second_labels == nullptr) {
    const bool bad = outside(first);
    return {bad ? 0 : first, bad ? 0 : first, certain, 0.0F, bad};
  }
  const int second = problem.second_labels[n];
  const float weight = problem.weights[n];
  if (outside(first) || outside(second) || !(weight >= 0.0F && weight <= 1.0F)) {
    return {0, 0, certain, 0.0F, true};
  }
  if (first == second) return {first, first, certain, 0.0F, false};
  const float share = certain * weight;
  const float rest = certain * (1.0F - weight);
  return weight >= 0.5F ? Label{first, second, share, rest, false}
                        : Label{second, first, rest, share, false};
}

/// Sums (or maxima) over the threads of a row, which all of them get: a warp, or the whole block.
template <int RowThreads, typename Value, typename Combine>
__device__ __forceinline__ Value over_row(Value value, const Combine& combine) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  }
  if constexpr (RowThreads > warp) {
    constexpr int warps = RowThreads / warp;
    __shared__ Value parts[warps];
    __syncthreads();  // an earlier call's parts have been read
    if (threadIdx.x % warp == 0) parts[threadIdx.x / warp] = value;
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int i = 1; i < warps; ++i) value = combine(value, parts[i]);
  }
  return value;
}

struct Plus {
  template <typename Value>
  __device__ Value operator()(Value a, Value b) const {
    return a + b;
  }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// A row relative to its largest logit.
struct Softmax {
  float largest;
  float total;        // sum of exp(shifted)
  float shifted_sum;  // sum of shifted
  int rank;           // logits ahead of the major label's
};

template <typename T, int RowThreads>
__device__ __forceinline__ Softmax softmax_of(const T* row, int classes, int label, int lane) {
  Softmax result;
  float largest = -INFINITY;
  for (int k = lane; k < classes; k += RowThreads) largest = fmaxf(largest, to_float(row[k]));
  result.largest = over_row<RowThreads>(largest, Larger());
  const float own = to_float(row[label]);
  float total = 0.0F;
  float shifted_sum = 0.0F;
  int ahead = 0;
  for (int k = lane; k < classes; k += RowThreads) {
    const float logit = to_float(row[k]);
    total += expf(logit - result.largest);
    shifted_sum += logit - result.largest;
    // NaN counts as ahead of all.
    ahead += logit < own || (logit == own && k >= label) ? 0 : 1;
  }
  result.total = over_row<RowThreads>(total, Plus());
  result.shifted_sum = over_row<RowThreads>(shifted_sum, Plus());
  result.rank = over_row<RowThreads>(ahead, Plus());
  return result;
}

template <typename T>
__device__ __forceinline__ RowLoss loss_of(const T* row, const Softmax& softmax, const Label& label,
                                           float smoothing, int classes) {
  const auto shifted = [&](int k) { return to_float(row[k]) - softmax.largest; };
  float loss = logf(softmax.total) - label.major_share * shifted(label.major);
  // A class that counts for nothing may be excluded by -inf; 0 * inf would be NaN.
  if (label.minor_share > 0.0F) loss -= label.minor_share * shifted(label.minor);
  if (smoothing > 0.0F) loss -= smoothing / static_cast<float>(classes) * softmax.shifted_sum;
  if (label.bad) loss = NAN;
  const bool miss = label.bad || isnan(to_float(row[label.major]));
  return {loss, !miss && softmax.rank < 1, !miss && softmax.rank < 5, label.bad};
}

template <typename T, int RowThreads>
__global__ void __launch_bounds__(threads) row_losses(Problem<T> problem, RowLoss* losses) {
  const std::int64_t n =
      std::int64_t{blockIdx.x} * (threads / RowThreads) + threadIdx.x / RowThreads;
  const int lane = static_cast<int>(threadIdx.x) % RowThreads;
  if (n >= problem.batch) return;
  const int classes = problem.classes;
  T* gradient = problem.gradient == nullptr ? nullptr : problem.gradient + n * classes;
  if (n >= problem.valid) {
    if (gradient != nullptr) {
      for (int k = lane; k < classes; k += RowThreads) gradient[k] = from_float<T>(0.0F);
    }
    if (lane == 0) losses[n] = {0.0F, 0, 0, 0};
    return;
  }
  const T* row = problem.logits + n * classes;
  const Label label = label_of(problem, n);
  const Softmax softmax = softmax_of<T, RowThreads>(row, classes, label.major, lane);
  if (lane == 0) losses[n] = loss_of(row, softmax, label, problem.smoothing, classes);
  if (gradient == nullptr) return;
  float scale = 1.0F / static_cast<float>(problem.batch);
  if (problem.gradient_scale != nullptr) scale *= *problem.gradient_scale;
  if (label.bad) scale = NAN;
  const float uniform = problem.smoothing / static_cast<float>(classes);
  const float inverse_total = 1.0F / softmax.total;
  for (int k = lane; k < classes; k += RowThreads) {
    float target = uniform;
    if (k == label.major) {
      target += label.major_share;
    } else if (k == label.minor) {
      target += label.minor_share;
    }
    const float probability = expf(to_float(row[k]) - softmax.largest) * inverse_total;
    gradient[k] = from_float<T>((probability - target) * scale);
  }
}

/// One block. `sums` is null where the totals are enough.
__global__ void __launch_bounds__(sum_threads)
    sum_losses(std::int64_t batch, std::int64_t valid, const RowLoss* losses, Totals* totals,
               float* sums) {
  double loss = 0.0;
  long long top1 = 0;
  long long top5 = 0;
  long long first_bad = batch;
  for (std::int64_t n = threadIdx.x; n < batch; n += sum_threads) {
    const RowLoss row = losses[n];
    loss += static_cast<double>(row.loss);
    top1 += row.top1;
    top5 += row.top5;
    if (row.bad != 0) first_bad = min(first_bad, static_cast<long long>(n));
  }
  loss = over_row<sum_threads>(loss, Plus());
  top1 = over_row<sum_threads>(top1, Plus());
  top5 = over_row<sum_threads>(top5, Plus());
  first_bad = over_row<sum_threads>(first_bad, [](long long a, long long b) { return min(a, b); });
  if (threadIdx.x != 0) return;
  *totals = {loss, top1, top5, first_bad};
  if (sums == nullptr) return;
  sums[0] = static_cast<float>(loss);
  sums[1] = static_cast<float>(valid);
  sums[2] = static_cast<float>(top1);
  sums[3] = static_cast<float>(top5);
}

struct Enqueued {
  const Tensor& logits;
  const Targets& targets;
  float smoothing;
  std::int64_t valid;
  const Tensor& gradient;
  const float* gradient_scale;
  float* sums;
  std::byte* scratch;
};

void enqueue(CudaContext& context, const Enqueued& args) {
  const std::int64_t batch = args.logits.shape()[0];
  const std::int64_t classes = args.logits.shape()[1];
  constexpr std::int64_t most_in_a_warp = 256;
  TANDEM_CHECK(!args.gradient.defined() || args.gradient.dtype() == args.logits.dtype(),
               "a gradient of {} for logits of {}", name_of(args.gradient.dtype()),
               name_of(args.logits.dtype()));
  RowLoss* losses = rows_in(args.scratch);
  with_element_type(args.logits.dtype(), [&](auto element) {
    using T = decltype(element);
    const bool mixed = args.targets.mixed();
    const Problem<T> problem{
        .logits = static_cast<const T*>(args.logits.raw()),
        .gradient = static_cast<T*>(args.gradient.raw()),
        .labels = args.targets.labels.data<std::int32_t>(),
        .second_labels = mixed ? args.targets.second_labels.data<std::int32_t>() : nullptr,
        .weights = mixed ? args.targets.weights.data<float>() : nullptr,
        .gradient_scale = args.gradient_scale,
        .batch = batch,
        .valid = args.valid,
        .classes = static_cast<int>(small_count(classes)),
        .smoothing = args.smoothing};
    if (classes <= most_in_a_warp) {
      row_losses<T, warp>
          <<<blocks_for(batch, threads / warp), threads, 0, context.stream()>>>(problem, losses);
    } else {
      row_losses<T, threads>
          <<<blocks_for(batch, 1), threads, 0, context.stream()>>>(problem, losses);
    }
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  sum_losses<<<1, sum_threads, 0, context.stream()>>>(batch, args.valid, losses,
                                                      totals_in(args.scratch), args.sums);
  TANDEM_CUDA_CHECK_LAUNCH();
}

/// Throws Error that tells what is wrong with sample n's target.
[[noreturn]] void bad_target(CudaContext& context, const Targets& targets, std::int64_t n,
                             std::int64_t classes) {
  const auto check = [&](const Tensor& labels) {
    std::int32_t label = 0;
    copy_to_host(context, labels.data<std::int32_t>() + n, sizeof(label), &label);
    TANDEM_CHECK(label >= 0 && label < classes, "label {} of {} classes", label, classes);
  };
  check(targets.labels);
  float weight = 0.0F;
  if (targets.mixed()) {
    check(targets.second_labels);
    copy_to_host(context, targets.weights.data<float>() + n, sizeof(weight), &weight);
  }
  throw Error(fmt::format("a label's weight of {}", weight));
}

}  // namespace

LossSums softmax_cross_entropy(CudaContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient,
                               std::byte* scratch) {
  if (logits.elements() == 0) return {};
  enqueue(context, {.logits = logits,
                    .targets = targets,
                    .smoothing = smoothing,
                    .valid = valid,
                    .gradient = gradient,
                    .gradient_scale = nullptr,
                    .sums = nullptr,
                    .scratch = scratch});
  Totals totals{};
  copy_to_host(context, totals_in(scratch), sizeof(totals), &totals);
  if (totals.first_bad < logits.shape()[0]) {
    bad_target(context, targets, totals.first_bad, logits.shape()[1]);
  }
  return {.loss = totals.loss, .samples = valid, .top1 = totals.top1, .top5 = totals.top5};
}

void softmax_cross_entropy_into(CudaContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch) {
  enqueue(context, {.logits = logits,
                    .targets = targets,
                    .smoothing = smoothing,
                    .valid = valid,
                    .gradient = gradient,
                    .gradient_scale = gradient_scale,
                    .sums = sums.data<float>(),
                    .scratch = scratch});
}

}  // namespace tandem
