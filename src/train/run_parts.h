#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/heartbeat.h"
#include "data/augment/transform.h"
#include "data/data_loader.h"
#include "data/datasets/dataset.h"
#include "data/distributed_sampler.h"
#include "data/fingerprint.h"
#include "device/any_context.h"
#include "device/machine.h"
#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"
#include "train/run_config.h"
#include "train/step/replica.h"

namespace tandem {

/// What steps of a run need, made of its config on all ranks alike and in this order: the device,
/// the data with its loader, the model. Nothing is written, and the loader has not begun.
struct RunParts {
  /// Collective. Both outlive it. Throws InputError for whatever of the config or the data is
  /// wrong or differs between ranks.
  RunParts(const RunConfig& config, Communicator& communicator);
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  using Clock = std::chrono::steady_clock;

  Clock::time_point began = Clock::now();
  HeartbeatWatch heartbeat;  ///< from here on, for as long as these live
  RankTopology topology;
  Machine machine;
  AnyContext context;
  RankTopology places;                      ///< with the ranks' GPUs
  std::unique_ptr<Communicator> reduction;  ///< of gradients; null: the run's own
  Clock::time_point device_ready = Clock::now();
  Datasets datasets;
  DataFingerprint train_data;
  Transform train_transform;
  DistributedSampler sampler;
  DataLoader loader;
  Clock::time_point data_ready = Clock::now();
  Replica replica;  ///< behind the loader, whose memory a device may still read
  Clock::time_point model_ready = Clock::now();

  /// Compute threads of this rank; 0 where a GPU computes.
  int threads() const;
};

}  // namespace tandem
