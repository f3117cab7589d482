#include "layers/linear/biased_product.h"

#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "layers/linear/bias_cuda.h"
#include "layers/plans/matmul_plan.h"
#include "layers/tuning/plan_tuner.h"
#include "layers/tuning/plan_way.h"
#include "layers/tuning/trial_operand.h"
#include "tensor/tensor_kernels.h"

namespace tandem {
namespace {

std::string fused_name(int algorithm) { return fmt::format("cublaslt {}", algorithm); }
constexpr std::string_view apart_name = "apart";

/// With the algorithm at a place of cuBLASLt's heuristics; null where it has not so many.
std::unique_ptr<CublasMatmul> biased_product(CudaContext& context,
                                             const ConvolutionProblem& problem, int algorithm) {
  const std::int64_t in = problem.channels;
  auto product = std::make_unique<CublasMatmul>(
      context,
      MatmulProblem{.left = {.rows = problem.pixels(), .columns = in},
                    .right = {.rows = problem.out_channels, .columns = in, .transposed = true},
                    .precision = problem.precision,
                    .result = problem.dtype(),
                    .bias = true},
      algorithm);
  return product->supported() ? std::move(product) : nullptr;
}

/// A bias to try ways with.
class TrialBias {
 public:
  TrialBias(CudaContext& context, const ConvolutionProblem& problem)
      : shape_{problem.out_channels},
        dtype_(problem.dtype()),
        full_(context, static_cast<std::size_t>(problem.out_channels) * sizeof(float)),
        rounded_(context, static_cast<std::size_t>(problem.out_channels) * size_of(dtype_)) {
    const std::vector<float> values = values_for(problem);
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(full_.data(), values.data(), full_.bytes(),
                                      cudaMemcpyHostToDevice, context.stream()));
    convert(context, full(), rounded());
    context.synchronize();  // `values` ends here
  }

  Tensor full() const { return {full_.data(), shape_, DType::f32}; }
  Tensor rounded() const { return {rounded_.data(), shape_, dtype_}; }

 private:
  /// Numbers of up to about the root of the sums' length, as sums of random products have, so that
  /// they show in the result; whole ones of seven bits by a power of two, which every dtype holds.
  static std::vector<float> values_for(const ConvolutionProblem& problem) {
    const float unit = 0x1p-7F * scale_beside_sums(problem.sum_terms());
    std::vector<float> values(static_cast<std::size_t>(problem.out_channels));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = unit * (static_cast<float>((i + 1) * 97 % 251) - 125.0F);
    }
    return values;
  }

  Shape shape_;
  DType dtype_;
  DeviceBuffer full_;
  DeviceBuffer rounded_;
};

PlansToTry candidates(CudaContext& context, const ConvolutionProblem& problem,
                      const ConvolutionPlanPtr& plain) {
  const auto bias = std::make_shared<const TrialBias>(context, problem);
  std::vector<ConvolutionPlanPtr> ways;
  for (int algorithm = 0; algorithm < most_matmul_algorithms; ++algorithm) {
    const std::shared_ptr<const CublasMatmul> product = biased_product(context, problem, algorithm);
    if (product == nullptr) break;
    ways.push_back(std::make_shared<PlanWay>(
        fused_name(algorithm), product->scratch(),
        [product, bias](const void* x, const void* weight, void* y, std::byte* scratch) {
          product->run(x, weight, bias->rounded().raw(), y, scratch);
        }));
  }
  const Shape shape{problem.pixels(), problem.out_channels};
  ways.push_back(std::make_shared<PlanWay>(
      std::string(apart_name), plain->scratch(),
      [=, &context](const void* x, const void* weight, void* y, std::byte* scratch) {
        plain->run(x, weight, y, scratch);
        add_bias(context, bias->full(), Tensor(y, shape, problem.dtype()));
      }));
  return {.plans = std::move(ways), .bias = bias->full().data<float>()};
}

}  // namespace

std::unique_ptr<CublasMatmul> choose_biased_product(CudaContext& context,
                                                    const ConvolutionProblem& problem,
                                                    const ConvolutionPlanPtr& plain) {
  const std::string name = choose_way(
      context, problem, problem.key() + " bias",
      [&] { return candidates(context, problem, plain); }, std::string(apart_name));
  for (int algorithm = 0; algorithm < most_matmul_algorithms; ++algorithm) {
    if (name == fused_name(algorithm)) return biased_product(context, problem, algorithm);
  }
  return nullptr;
}

}  // namespace tandem
