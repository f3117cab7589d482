#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/config_table.h"
#include "data/data_config.h"
#include "device/open_context.h"
#include "graph/name_prefixes.h"
#include "graph/step_plan.h"
#include "optim/optimizer_config.h"
#include "optim/schedule.h"
#include "parallel/device_communicator.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/reduction_kind.h"
#include "tensor/precision.h"
#include "train/early_stop.h"
#include "train/step/weight_average.h"

namespace tandem {

/// A run file: everything that decides a training run. Tables and keys, with their defaults:
///
/// | key | meaning |
/// | --- | --- |
/// | model.name | a zoo model ("resnet18") or the path of a model file; required. The number of
///   classes, the channels and the input size follow from the data |
/// | model.dropout | rate of the dropout before the classifier, default the model file's |
/// | model.stochastic_depth | rate of the last block, for models that have it, default the model
///   file's |
/// | data.* | data/data_config.h |
/// | optimizer.* | optim/optimizer_config.h |
/// | schedule.* | optim/schedule_config.h |
/// | train.epochs | required |
/// | train.max_steps | the run ends after so many steps, with an evaluation and a checkpoint;
///   default 0: after train.epochs, for which the schedule is in any case |
/// | train.global_batch | samples an optimizer step over all ranks and micro-batches; required |
/// | train.accumulate | micro-batches a step, default 1 |
/// | train.seed | of initialisation, shuffling and augmentation, default 1 |
/// | train.label_smoothing | default 0, below 1 |
/// | train.log_every | steps between two records of metrics.jsonl, default 50 |
/// | train.eval_every | epochs between two evaluations, default 1; the last epoch always has one |
/// | train.eval_batch | samples a rank evaluates at once; default 0: as many as it trains on |
/// | train.threads | compute threads a rank; default 0: the host's cores shared among its ranks |
/// | train.device | "cpu", "cuda", or "auto", the default: cuda where Tandem was built with it and
/// a
///   GPU is seen |
/// | train.precision | "fp32" (default), "tf32", "bf16" or "fp16"; others than fp32 on GPUs alone |
/// | train.side_stream | "auto" (default), "by_size", "never", "always": whose weight gradients a
///   GPU computes beside the rest of backward (SideWork in graph/step_plan.h) |
/// | train.update_in_backward | a single rank with a GPU updates weights while backward still
///   computes the gradients of others, where it can (train/step/gradient_memory.h), default true |
/// | train.tensorboard | TensorBoard event files beside metrics.jsonl, default true |
/// | train.init | weights to start from, default none: by train.seed |
/// | train.init_skip | beginnings of names that start anew instead, default none |
/// | train.freeze | beginnings of names of parameters that are not trained, default none |
/// | train.freeze_statistics | whether normalisations of frozen parameters keep their statistics
/// and
///   normalise with them, default true |
/// | train.sync_batch_norm | batch statistics over all ranks, default false: of each rank's own |
/// | train.ema_decay | of the weights' moving average, which is then evaluated; default 0: none |
/// | train.ema_warmup | the average decays faster at first, default false |
/// | train.early_stop_* | train/early_stop.h; default: never |
/// | checkpoint.every_steps | default 0: at the end of epochs only |
/// | checkpoint.every_epochs | default 1; evaluations and the last epoch always have one |
/// | checkpoint.keep | how many step checkpoints stay, default 3 |
/// | checkpoint.timeout_seconds | how long reading or writing the run's folder, checkpoints and
///   weights may stand still before it ends the run, default 20; 0: for ever |
/// | parallel.first_bucket_mib, parallel.bucket_mib | MiB, default 1 and 25; 1 and 12 where ranks
///   with a GPU each exchange gradients directly, 1 and 4 where a single rank updates in backward;
///   one bucket of everything where ranks take turns on a GPU; the first no larger than the others
///   |
/// | parallel.taper_buckets | buckets shrink towards the end of backward; default: where ranks
///   with a GPU each exchange gradients directly |
/// | parallel.gradient_compression | "none" (default), or "bf16": gradients travel between ranks as
///   bf16, and are added up in fp32 |
/// | parallel.reduction | "flat", "two_level" (within each device, then among one rank of each), or
///   "auto", the default: two_level where ranks share a device |
/// | parallel.shared_state | ranks that share a device keep one copy of weights and optimizer
///   state between them; default true, but for "lars" |
/// | parallel.sharded_update | ranks with a GPU each that exchange gradients directly update a
///   share of each bucket, default true |
/// | parallel.exchange | how ranks on several GPUs exchange gradients: "nccl", "direct" (a kernel
///   that sums in the GPUs' memory), or "auto", the default: direct where the GPUs reach each
///   other's memory, gradients do not travel as bf16 and no rank has NCCL_P2P_DISABLE set, else
///   nccl |
/// | parallel.nccl_max_ctas | multiprocessors at most that NCCL takes from computing, default 0: as
///   many as it likes |
/// | parallel.nccl_cga_cluster_size | how many of NCCL's blocks start together, 0 to 8; default:
///   NCCL's |
/// | parallel.folded_ranks | how many ranks each process carries, computed in one pass, each with
///   BatchNorm statistics of its own; default 1 |
/// | parallel.check_every | steps between two comparisons of the replicas' bits, default 500;
///   0: only at the end of the run |
/// | parallel.timeout_seconds | how long a rank waits for silent ones before it ends the job,
///   default 20; 0: for ever |
struct RunConfig {
  std::string model;
  std::optional<double> dropout;
  std::optional<double> stochastic_depth;
  std::string dropout_place;  ///< "run.toml:3: model.dropout", for messages
  std::string stochastic_depth_place;
  DataConfig data;
  OptimizerConfig optimizer;
  Schedule schedule;

  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;
  std::int64_t global_batch = 1;
  std::string global_batch_place;  ///< "run.toml:7: train.global_batch", for messages
  int accumulate = 1;
  std::uint64_t seed = 1;
  float label_smoothing = 0.0F;
  std::int64_t log_every = 50;
  std::int64_t eval_every = 1;
  std::int64_t eval_batch = 0;
  int threads = 0;
  DeviceKind device = DeviceKind::automatic;
  Precision precision = Precision::fp32;
  SideWork side_work = SideWork::by_timing;
  bool update_in_backward = true;  ///< where a single rank can (train/step/gradient_memory.h)
  bool tensorboard = true;
  std::string init;
  std::string init_place;  ///< as global_batch_place
  NamePrefixes init_skip;
  NamePrefixes freeze;
  bool freeze_statistics = true;
  bool sync_batch_norm = false;
  WeightAverageConfig average;
  EarlyStopConfig early_stop;

  std::int64_t checkpoint_every_steps = 0;
  std::int64_t checkpoint_every_epochs = 1;
  int checkpoint_keep = 3;
  double checkpoint_timeout_seconds = 20.0;

  static constexpr std::int64_t usual_first_bucket_bytes = 1 << 20;
  static constexpr std::int64_t usual_bucket_bytes = 25 << 20;
  static constexpr std::int64_t small_bucket_bytes = 12 << 20;
  /// Of a single rank that updates in backward: as little as still is worth a kernel of its own.
  static constexpr std::int64_t passing_bucket_bytes = 4 << 20;
  std::optional<std::int64_t> first_bucket_bytes{};  ///< absent: as the exchange likes it
  std::optional<std::int64_t> bucket_bytes{};        ///< the same
  std::optional<bool> taper_buckets{};               ///< absent: as the exchange likes it
  GradientCompression gradient_compression = GradientCompression::none;
  bool shared_state = true;    ///< one state for the ranks of a GPU or host
  bool sharded_update = true;  ///< each rank updates a share, where ranks reach each other's GPUs
  ReductionKind reduction = ReductionKind::automatic;
  DeviceLinkOptions device_link;
  int folded_ranks = 1;
  std::int64_t check_every = 500;
  double timeout_seconds = 20.0;

  /// The whole file with overrides and defaults, as TOML.
  std::string text;
};

/// Reads and checks a run file. Throws InputError naming file, line and key.
RunConfig read_run_config(const ConfigTable& root);

}  // namespace tandem
