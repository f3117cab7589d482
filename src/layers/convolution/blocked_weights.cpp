#include "layers/convolution/blocked_weights.h"

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "layers/four_floats.h"
#include "layers/streaming_store.h"

namespace tandem {
namespace {

Four load(const float* place) { return *reinterpret_cast<const FourInMemory*>(place); }
void store(float* place, Four value) { *reinterpret_cast<FourInMemory*>(place) = value; }

/// target[j][i] = source[i][j], 4 x 4 with rows so far apart.
inline void transpose_four(const float* source, std::int64_t source_row, float* target,
                           std::int64_t target_row) {
  const Four a = load(source);
  const Four b = load(source + source_row);
  const Four c = load(source + 2 * source_row);
  const Four d = load(source + 3 * source_row);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(target, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(target + target_row, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(target + 2 * target_row, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(target + 3 * target_row, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

/// A tile of whole cache lines is done with each before it meets too many others of their set.
template <int tile>
inline void transpose_tile(const float* source, std::int64_t source_row, float* target,
                           std::int64_t target_row) {
  for (int i = 0; i < tile; i += 4) {
    for (int j = 0; j < tile; j += 4) {
      transpose_four(source + i * source_row + j, source_row, target + j * target_row + i,
                     target_row);
    }
  }
}

template <int tile>
inline void copy_tile(const float* source, std::int64_t source_row, float* target,
                      std::int64_t target_row) {
  for (int i = 0; i < tile; ++i) {
    std::memcpy(target + i * target_row, source + i * source_row, tile * sizeof(float));
  }
}

/// Streamed lines are to be written whole, and transposing writes them in pieces.
template <int tile>
inline void stream_transposed(const float* source, std::int64_t source_row, float* target,
                              std::int64_t target_row) {
  alignas(64) float transposed[tile * tile];
  transpose_tile<tile>(source, source_row, transposed, tile);
  for (int i = 0; i < tile; ++i) {
    for (int j = 0; j < tile; j += 4) {
      stream_store(target + i * target_row + j, load(transposed + i * tile + j));
    }
  }
}

}  // namespace

bool BlockedWeights::fits(const WeightBlocks& blocks, std::int64_t outputs, std::int64_t inputs) {
  const std::int64_t block_inputs = blocks.inputs == 0 ? inputs : blocks.inputs;
  return outputs % blocks.outputs == 0 && inputs % block_inputs == 0 && blocks.outputs % 8 == 0 &&
         block_inputs % 8 == 0;
}

BlockedWeights::BlockedWeights(const WeightBlocks& blocks, std::int64_t outputs,
                               std::int64_t positions, std::int64_t inputs)
    : blocks_(blocks), outputs_(outputs), positions_(positions), inputs_(inputs) {
  TANDEM_CHECK(fits(blocks, outputs, inputs), "{} x {} channels in blocks of {} x {}", outputs,
               inputs, blocks.outputs, blocks.inputs);
  if (blocks_.inputs == 0) blocks_.inputs = inputs;
}

void BlockedWeights::pack(const CpuContext& context, const float* plain, float* blocked) const {
  if (in_sixteens()) {
    pack_tiles<16>(context, plain, blocked);
  } else {
    pack_tiles<8>(context, plain, blocked);
  }
}

void BlockedWeights::unpack(const CpuContext& context, const float* blocked, float* plain) const {
  TANDEM_CHECK(can_unpack(), "weights in blocks of inputs are not unpacked");
  TANDEM_CHECK(reinterpret_cast<std::uintptr_t>(plain) % 16 == 0, "weights at {}",
               static_cast<const void*>(plain));
  if (in_sixteens()) {
    unpack_tiles<16>(context, blocked, plain);
  } else {
    unpack_tiles<8>(context, blocked, plain);
  }
}

bool BlockedWeights::in_sixteens() const {
  return blocks_.outputs % 16 == 0 && blocks_.inputs % 16 == 0;
}

template <int tile>
void BlockedWeights::pack_tiles(const CpuContext& context, const float* plain,
                                float* blocked) const {
  const std::int64_t row = positions_ * inputs_;
  if (blocks_.outputs_inside) {
    for_tiles<tile>(context, [&](std::int64_t from, std::int64_t to) {
      transpose_tile<tile>(plain + from, row, blocked + to, blocks_.outputs);
    });
  } else {
    for_tiles<tile>(context, [&](std::int64_t from, std::int64_t to) {
      copy_tile<tile>(plain + from, row, blocked + to, blocks_.inputs);
    });
  }
}

template <int tile>
void BlockedWeights::unpack_tiles(const CpuContext& context, const float* blocked,
                                  float* plain) const {
  const std::int64_t row = positions_ * inputs_;
  for_tiles<tile>(context, [&](std::int64_t to, std::int64_t from) {
    stream_transposed<tile>(blocked + from, blocks_.outputs, plain + to, row);
  });
}

template <int tile, typename Move>
void BlockedWeights::for_tiles(const CpuContext& context, const Move& move) const {
  const std::int64_t block = positions_ * blocks_.outputs * blocks_.inputs;
  const std::int64_t next_outputs =
      blocks_.inputs_outside ? block : block * (inputs_ / blocks_.inputs);
  const std::int64_t next_inputs =
      blocks_.inputs_outside ? block * (outputs_ / blocks_.outputs) : block;
  const std::int64_t next_output = blocks_.outputs_inside ? 1 : blocks_.inputs;
  const std::int64_t next_input = blocks_.outputs_inside ? blocks_.outputs : 1;
#pragma omp parallel num_threads(context.threads())
  {
#pragma omp for collapse(2) schedule(static) nowait
    for (std::int64_t k = 0; k < outputs_; k += tile) {
      for (std::int64_t p = 0; p < positions_; ++p) {
        std::int64_t plain = (k * positions_ + p) * inputs_;
        std::int64_t blocked = k / blocks_.outputs * next_outputs +
                               p * blocks_.outputs * blocks_.inputs +
                               k % blocks_.outputs * next_output;
        for (std::int64_t c = 0; c < inputs_; c += blocks_.inputs) {
          for (std::int64_t i = 0; i < blocks_.inputs; i += tile) {
            move(plain + i, blocked + i * next_input);
          }
          plain += blocks_.inputs;
          blocked += next_inputs;
        }
      }
    }
    streamed();
  }
}

}  // namespace tandem
