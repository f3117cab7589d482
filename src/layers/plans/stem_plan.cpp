#include "layers/plans/stem_plan.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/stem_memory.h"

namespace tandem {
namespace {

constexpr int blocks_on_multiprocessor = 2;

int ceil_div(int count, int by) { return (count + by - 1) / by; }

bool is_stem(const ConvolutionProblem& p) {
  const Window& window = p.window;
  return p.operation != ConvolutionOperation::data_gradient && p.groups == 1 && p.channels == 3 &&
         p.out_channels <= 64 && p.out_channels % 8 == 0 && size_of(p.dtype()) == 2 &&
         window.stride == 2 && window.dilation == 1 && window.kernel >= 1 && window.kernel <= 7 &&
         window.padding < window.kernel && p.columns % 8 == 0 &&
         p.pixels() < (std::int64_t{1} << 30) && p.columns <= 4096;
}

/// As many as have the least to do in the last turn.
int warps_for(int items) {
  int best = 4;
  for (int warps = 5; warps <= 8; ++warps) {
    if (ceil_div(items, warps) * warps - items <= ceil_div(items, best) * best - items)
      best = warps;
  }
  return std::min(best, items);
}

class StemPlan final : public ConvolutionPlan {
 public:
  StemPlan(CudaContext& context, ConvolutionOperation operation, const StemTiles& tiles)
      : context_(&context), operation_(operation), tiles_(tiles) {}

  std::string name() const override { return fmt::format("stem {}", tiles_.tile_rows); }
  std::size_t scratch() const override {
    return operation_ == ConvolutionOperation::forward ? 0 : tiles_.partials() * sizeof(float);
  }
  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    if (operation_ == ConvolutionOperation::forward) {
      stem_forward(*context_, tiles_, first, second, result);
    } else {
      stem_weight_gradient(*context_, tiles_, first, second, reinterpret_cast<float*>(scratch),
                           static_cast<float*>(result));
    }
  }

 private:
  CudaContext* context_;
  ConvolutionOperation operation_;
  StemTiles tiles_;
};

}  // namespace

std::optional<StemTiles> make_stem_tiles(const CudaContext& context,
                                         const ConvolutionProblem& problem, int tile_rows) {
  if (!is_stem(problem)) return std::nullopt;
  const auto narrow = [](std::int64_t extent) { return static_cast<int>(extent); };
  StemTiles tiles{.dtype = problem.dtype(),
                  .batch = narrow(problem.batch),
                  .rows = narrow(problem.rows),
                  .columns = narrow(problem.columns),
                  .out_rows = narrow(problem.out_rows),
                  .out_columns = narrow(problem.out_columns),
                  .out = narrow(problem.out_channels),
                  .block_columns = problem.out_channels <= 32 ? 32 : 64,
                  .kernel = narrow(problem.window.kernel),
                  .padding = narrow(problem.window.padding),
                  .tile_rows = tile_rows};
  tiles.left = tiles.padding + tiles.padding % 2;
  tiles.quads = ceil_div(tiles.kernel + tiles.first_tap(), 4);
  tiles.column_groups = ceil_div(tiles.out_columns, 16);
  const int read = 2 * (16 * tiles.column_groups - 1) + 4 * tiles.quads;
  tiles.pitch = std::max(tiles.left + tiles.columns, read);
  tiles.pitch += tiles.pitch % 2;
  tiles.row_tiles = ceil_div(tiles.out_rows, tile_rows);
  tiles.blocks =
      std::min(tiles.tiles(), blocks_on_multiprocessor * context.device().multiprocessors);
  tiles.warps = warps_for(stem_items(tiles));
  int most_shared = 0;
  context.activate();
  TANDEM_CUDA_CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                           context.device().index));
  const std::size_t bytes = problem.operation == ConvolutionOperation::forward
                                ? stem_forward_bytes(tiles)
                                : stem_gradient_bytes(tiles);
  if (bytes > static_cast<std::size_t>(most_shared)) return std::nullopt;
  return tiles;
}

std::vector<ConvolutionPlanPtr> stem_plans(CudaContext& context,
                                           const ConvolutionProblem& problem) {
  std::vector<ConvolutionPlanPtr> plans;
  for (const int rows : stem_rows) {
    if (const auto tiles = make_stem_tiles(context, problem, rows)) {
      plans.push_back(std::make_shared<StemPlan>(context, problem.operation, *tiles));
    }
  }
  return plans;
}

}  // namespace tandem
