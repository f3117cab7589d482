#include "optim/lars.h"

#include "base/error.h"
#include "optim/gradient_norm_kernels.h"

namespace tandem {
namespace {

std::vector<LarsSlice> lars_slices(std::span<const ParameterGroupSlice> slices,
                                   std::int64_t block_elements) {
  std::vector<LarsSlice> result;
  std::int64_t first_block = 0;
  for (const ParameterGroupSlice& slice : slices) {
    const std::int64_t blocks = (slice.elements + block_elements - 1) / block_elements;
    result.push_back({first_block, blocks, slice.weight_decay, slice.adapt});
    first_block += blocks;
  }
  return result;
}

}  // namespace

Lars::Lars(AnyContext& context, std::int64_t arena_elements,
           std::span<const ParameterGroupSlice> slices, const LarsOptions& options)
    : Optimizer(context, arena_elements, slices),
      options_(options),
      blocks_(context, slices),
      slices_(context, lars_slices(slices, block_elements_of(context)),
              "the optimizer's table of tensors"),
      parameter_squares_(context, blocks_.rows().size(), "the parameters' norms"),
      gradient_squares_(context, blocks_.rows().size(), "the gradients' norms"),
      rates_(context, slices.size(), "the tensors' rates"),
      momentum_(context, static_cast<std::size_t>(arena_elements) * sizeof(float),
                "the optimizer's momentum") {
  TANDEM_CHECK(options.momentum >= 0.0F && options.momentum < 1.0F, "a momentum of {}",
               options.momentum);
  TANDEM_CHECK(options.trust_coefficient > 0.0F, "a trust coefficient of {}",
               options.trust_coefficient);
}

std::vector<OptimizerState> Lars::state() {
  return {{"momentum", Tensor(momentum_.data(), {arena_elements()})}};
}

void Lars::update(AnyContext& context, float* parameters, const float* gradients,
                  const UpdateSettings& settings) {
  TANDEM_CHECK(settings.begin == 0 && settings.end >= arena_elements() && settings.peers.count == 0,
               "LARS updates whole parameters, of one device");
  const LarsRates rates{.slices = slices_.rows(),
                        .parameter_squares = parameter_squares_.rows(),
                        .gradient_squares = gradient_squares_.rows(),
                        .learning_rate = settings.learning_rate,
                        .gradient_scale = settings.gradient_scale,
                        .trust_coefficient = options_.trust_coefficient,
                        .control = settings.control,
                        .rates = rates_.rows()};
  const LarsUpdate update{.blocks = blocks_.rows(),
                          .rates = rates_.rows(),
                          .gradient_scale = settings.gradient_scale,
                          .momentum = options_.momentum,
                          .parameters = parameters,
                          .gradients = gradients,
                          .momentum_buffer = reinterpret_cast<float*>(momentum_.data()),
                          .control = settings.control,
                          .weights = settings.weights};
  std::visit(
      [&](auto& device) {
        square_sums(device, blocks_.rows(), parameters, parameter_squares_.rows());
        square_sums(device, blocks_.rows(), gradients, gradient_squares_.rows());
        lars_rates(device, rates);
        lars_update(device, update);
      },
      context);
}

}  // namespace tandem
