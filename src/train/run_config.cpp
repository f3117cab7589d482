#include "train/run_config.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "graph/model_file.h"
#include "optim/schedule_config.h"

namespace tandem {
namespace {

constexpr std::int64_t many = std::int64_t{1} << 40;

/// A rate that only a run that sets it changes.
std::optional<double> read_rate(const ConfigTable& table, std::string_view key) {
  if (!table.has(key)) return std::nullopt;
  return table.get_real(key, 0.0, 0.99);
}

void read_model(const ConfigTable& table, RunConfig& config) {
  config.model = table.get_string("name");
  try {
    // Built later, but only here is it known which key names what is no model file.
    static_cast<void>(ConfigTable::from_file(find_model(config.model)));
  } catch (const InputError& error) {
    table.fail("name", error.what());
  }
  config.dropout = read_rate(table, "dropout");
  config.stochastic_depth = read_rate(table, "stochastic_depth");
  config.dropout_place = table.where("dropout") + ": model.dropout";
  config.stochastic_depth_place = table.where("stochastic_depth") + ": model.stochastic_depth";
}

NamePrefixes read_prefixes(const ConfigTable& table, const std::string& key) {
  return NamePrefixes(table.get_strings(key), table.where(key) + ": train." + key);
}

/// What the weights start from and which of them move.
void read_start(const ConfigTable& table, RunConfig& config) {
  if (!table.get_string("init", "").empty()) config.init = table.get_path("init").string();
  config.init_place = table.where("init") + ": train.init";
  config.init_skip = read_prefixes(table, "init_skip");
  if (!config.init_skip.empty() && config.init.empty()) {
    table.fail("init_skip", "there is nothing to skip without init");
  }
  config.freeze = read_prefixes(table, "freeze");
  config.freeze_statistics = table.get_bool_or("freeze_statistics", true);
}

DeviceKind read_device(const ConfigTable& table) {
  static const std::vector<std::string> names{"auto", "cpu", "cuda"};
  const std::string chosen = table.get_choice_or("device", names[0], names);
  return static_cast<DeviceKind>(std::ranges::find(names, chosen) - names.begin());
}

Precision read_precision(const ConfigTable& table) {
  static const std::vector<std::string> names{"fp32", "tf32", "bf16", "fp16"};
  const std::string chosen = table.get_choice_or("precision", names[0], names);
  return static_cast<Precision>(std::ranges::find(names, chosen) - names.begin());
}

SideWork read_side_work(const ConfigTable& table) {
  static const std::vector<std::string> names{"auto", "by_size", "never", "always"};
  static_assert(static_cast<int>(SideWork::by_timing) == 0 &&
                static_cast<int>(SideWork::always) == 3);
  const std::string chosen = table.get_choice_or("side_stream", names[0], names);
  return static_cast<SideWork>(std::ranges::find(names, chosen) - names.begin());
}

void read_train(const ConfigTable& table, RunConfig& config) {
  config.epochs = table.get_int("epochs", 1, 1'000'000);
  config.max_steps = table.get_int_or("max_steps", 0, 0, many);
  // Counts of a step's samples travel beside its gradients as f32, which holds them up to 2^24.
  config.global_batch = table.get_int("global_batch", 1, std::int64_t{1} << 24);
  config.global_batch_place = table.where("global_batch") + ": train.global_batch";
  config.accumulate = static_cast<int>(table.get_int_or("accumulate", 1, 1, 1 << 20));
  config.seed = static_cast<std::uint64_t>(
      table.get_int_or("seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  config.label_smoothing = static_cast<float>(table.get_real_or("label_smoothing", 0.0, 0.0, 0.99));
  config.log_every = table.get_int_or("log_every", 50, 1, many);
  config.eval_every = table.get_int_or("eval_every", 1, 1, many);
  config.eval_batch = table.get_int_or("eval_batch", 0, 0, 1 << 20);
  config.threads = static_cast<int>(table.get_int_or("threads", 0, 0, 4096));
  config.device = read_device(table);
  config.precision = read_precision(table);
  config.side_work = read_side_work(table);
  config.update_in_backward = table.get_bool_or("update_in_backward", true);
  config.tensorboard = table.get_bool_or("tensorboard", true);
  read_start(table, config);
  config.sync_batch_norm = table.get_bool_or("sync_batch_norm", false);
  config.average.decay = table.get_real_or("ema_decay", 0.0, 0.0, 1.0, Ends::low);
  config.average.warmup = table.get_bool_or("ema_warmup", false);
  if (config.average.warmup && config.average.decay == 0.0) {
    table.fail("ema_warmup", "has no effect without ema_decay above 0");
  }
  config.early_stop = EarlyStopConfig::read(table);
}

void read_checkpoint(const ConfigTable& table, RunConfig& config) {
  config.checkpoint_every_steps = table.get_int_or("every_steps", 0, 0, many);
  config.checkpoint_every_epochs = table.get_int_or("every_epochs", 1, 1, many);
  config.checkpoint_keep = static_cast<int>(table.get_int_or("keep", 3, 1, 1'000'000));
  config.checkpoint_timeout_seconds = table.get_real_or("timeout_seconds", 20.0, 0.0, 1e6);
}

GradientCompression read_gradient_compression(const ConfigTable& table) {
  static const std::vector<std::string> names{"none", "bf16"};
  const std::string chosen = table.get_choice_or("gradient_compression", names[0], names);
  return static_cast<GradientCompression>(std::ranges::find(names, chosen) - names.begin());
}

ReductionKind read_reduction(const ConfigTable& table) {
  static const std::vector<std::string> names{"auto", "flat", "two_level"};
  const std::string chosen = table.get_choice_or("reduction", names[0], names);
  return static_cast<ReductionKind>(std::ranges::find(names, chosen) - names.begin());
}

DeviceLinkOptions read_device_link(const ConfigTable& table) {
  DeviceLinkOptions options;
  options.max_ctas = static_cast<int>(
      table.get_int_or("nccl_max_ctas", options.max_ctas, 0, DeviceLinkOptions::most_ctas));
  constexpr std::string_view cluster = "nccl_cga_cluster_size";
  if (table.has(cluster)) {
    options.cga_cluster_size =
        static_cast<int>(table.get_int(cluster, 0, DeviceLinkOptions::largest_cga_cluster));
  }
  static const std::vector<std::string> exchanges{"auto", "nccl", "direct"};
  const std::string exchange = table.get_choice_or("exchange", exchanges[0], exchanges);
  options.exchange =
      static_cast<ExchangeKind>(std::ranges::find(exchanges, exchange) - exchanges.begin());
  return options;
}

void read_parallel(const ConfigTable& table, RunConfig& config) {
  constexpr double mib = 1024.0 * 1024.0;
  const auto read_bytes = [&](std::string_view key, std::optional<std::int64_t>& bytes) {
    if (table.has(key)) bytes = static_cast<std::int64_t>(table.get_real(key, 0.001, 1e6) * mib);
  };
  read_bytes("first_bucket_mib", config.first_bucket_bytes);
  read_bytes("bucket_mib", config.bucket_bytes);
  if (table.has("taper_buckets")) config.taper_buckets = table.get_bool("taper_buckets");
  config.gradient_compression = read_gradient_compression(table);
  config.reduction = read_reduction(table);
  const bool lars = std::holds_alternative<LarsOptions>(config.optimizer.rule);
  config.shared_state = table.get_bool_or("shared_state", !lars);
  if (config.shared_state && lars) {
    table.fail("shared_state",
               "lars takes norms of whole parameters, so its state cannot be updated in shares; "
               "leave this out or choose another optimizer.kind");
  }
  config.sharded_update = table.get_bool_or("sharded_update", true);
  config.device_link = read_device_link(table);
  if (config.gradient_compression != GradientCompression::none) {
    if (config.device_link.exchange == ExchangeKind::direct) {
      table.fail("exchange",
                 "gradients that travel as bf16 go through NCCL; leave this out, or "
                 "gradient_compression");
    }
    config.device_link.exchange = ExchangeKind::nccl;
  }
  config.folded_ranks = static_cast<int>(table.get_int_or("folded_ranks", 1, 1, 4096));
  config.check_every = table.get_int_or("check_every", 500, 0, many);
  config.timeout_seconds = table.get_real_or("timeout_seconds", 20.0, 0.0, 1e6);
}

}  // namespace

RunConfig read_run_config(const ConfigTable& root) {
  RunConfig config;
  if (root.has("node")) {
    root.fail("node", "layers belong into a model file; a run file names that file as model.name");
  }
  read_model(root.table("model"), config);
  read_train(root.table("train"), config);
  config.data = read_data_config(root.table("data"));
  config.optimizer = read_optimizer_config(root.table("optimizer"));
  config.schedule = read_schedule_config(root.table("schedule"), config.optimizer.learning_rate,
                                         static_cast<double>(config.epochs));
  read_checkpoint(root.table("checkpoint"), config);
  read_parallel(root.table("parallel"), config);
  root.finish();
  config.text = root.to_toml();
  return config;
}

}  // namespace tandem
