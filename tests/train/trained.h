#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.h"
#include "data/data_config.h"
#include "graph/model_file.h"
#include "parallel/self_communicator.h"
#include "train/checkpoints/checkpoint.h"
#include "train/small_run.h"
#include "train/step/replica.h"

namespace tandem {

/// A replica with weights, running statistics and momentum that no initialisation gives.
struct Trained {
  RunConfig config;
  AnyContext context{CpuContext(1)};
  SelfCommunicator self;
  Replica replica;

  explicit Trained(std::uint64_t seed, const std::string& optimizer = "lr = 0.05\nmomentum = 0.9\n",
                   const std::string& model = "resnet8", const std::string& more = {})
      : config(small_run(more, optimizer)),
        replica(config, load_model(find_model(model), {.classes = 4, .channels = 1, .size = 8}), 4,
                context, self) {
    RandomStream random(seed, 0);
    for (Tensor tensor : tensors()) {
      for (float& value : tensor.span<float>()) value = random.uniform(-1.0F, 1.0F);
    }
  }

  /// Parameters, buffers and optimizer state, one by one: the gaps of an arena are nobody's.
  std::vector<Tensor> tensors() {
    std::vector<Tensor> all;
    ParameterStore& store = replica.store();
    for (std::size_t i = 0; i < store.parameters().size(); ++i) all.push_back(store.value(i));
    for (std::size_t i = 0; i < store.buffers().size(); ++i) all.push_back(store.buffer(i));
    for (const OptimizerState& state : replica.optimizer().state()) {
      for (const Parameter& parameter : store.trained()) {
        all.emplace_back(state.tensor.data<float>() + parameter.offset, parameter.shape);
      }
    }
    return all;
  }
};

inline const TrainingPosition trained_position{.step = 7,
                                               .steps_per_epoch = 5,
                                               .batches = 28,
                                               .best_top1 = 0.1 + 0.2,  // no short decimal
                                               .best_step = 4,
                                               .evaluated_step = 5,
                                               .seed = 18446744073709551615U,
                                               .global_batch = 16,
                                               .samples = 83,
                                               .classes = 0x12,
                                               .labels = 18446744073709551615U,
                                               .model = "resnet8"};

}  // namespace tandem
