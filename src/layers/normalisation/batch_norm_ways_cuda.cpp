#include "layers/normalisation/batch_norm_ways_cuda.h"

#include <algorithm>

#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"

namespace tandem {
namespace {

/// Of a tensor, what shared memory must keep for one kernel forward to be the way by size, and to
/// be tried: below, nearly all is read twice by either way.
constexpr double least_kept_by_size = 0.4;
constexpr double least_kept_tried = 0.1;

/// Whether one kernel may do all of it forward: there is a result to write, of what is finished.
bool may_finish_at_once(const BatchNormSetup& setup) {
  return !setup.defers && !setup.second_is_left;
}

bool may_be_one_kernel(const BatchNormSetup& setup) {
  return setup.has_batch_statistics() && setup.ranks == nullptr;
}

BatchNormWay way_by_size(const CudaContext& context, const BatchNormSetup& setup) {
  if (resident_tiles_of(context, setup)) {
    return {.forward = may_finish_at_once(setup) ? NormForward::resident : NormForward::two_kernels,
            .resident_backward = true};
  }
  if (persistent_tiles_of(context, setup, least_kept_by_size)) {
    return {.forward = NormForward::persistent};
  }
  return {};
}

}  // namespace

std::string name_of(const BatchNormWay& way) {
  std::string name;
  switch (way.forward) {
    case NormForward::two_kernels:
      name = "two kernels";
      break;
    case NormForward::persistent:
      name = "persistent";
      break;
    case NormForward::resident:
      name = "resident";
      break;
  }
  return name + (way.resident_backward ? ", backward resident" : ", backward two kernels");
}

std::optional<ResidentTiles> resident_tiles_of(const CudaContext& context,
                                               const BatchNormSetup& setup) {
  if (!may_be_one_kernel(setup)) return std::nullopt;
  return make_resident_tiles(setup.shape, static_cast<int>(size_of(setup.dtype)),
                             batch_norm_clusters(context));
}

std::optional<PersistentTiles> persistent_tiles_of(const CudaContext& context,
                                                   const BatchNormSetup& setup, double least_kept) {
  if (!may_be_one_kernel(setup) || !may_finish_at_once(setup) || setup.use == SecondInput::joined) {
    return std::nullopt;
  }
  const auto tiles = make_persistent_tiles(context, setup.shape, setup.dtype);
  return tiles && tiles->kept() >= least_kept ? tiles : std::nullopt;
}

std::vector<BatchNormWay> batch_norm_ways(const CudaContext& context, const BatchNormSetup& setup) {
  std::vector<NormForward> forward{NormForward::two_kernels};
  const bool resident = resident_tiles_of(context, setup).has_value();
  if (persistent_tiles_of(context, setup, least_kept_tried)) {
    forward.push_back(NormForward::persistent);
  }
  if (resident && may_finish_at_once(setup)) forward.push_back(NormForward::resident);
  std::vector<BatchNormWay> ways{way_by_size(context, setup)};
  for (const NormForward each : forward) {
    for (const bool backward : {false, true}) {
      const BatchNormWay way{.forward = each, .resident_backward = backward};
      if ((resident || !backward) && way != ways.front()) ways.push_back(way);
    }
  }
  return ways;
}

}  // namespace tandem
