#include "train/run_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <variant>

#include "base/error.h"
#include "parallel/mpi/mpi_communicator.h"
#include "support/message.h"
#include "train/small_run.h"

namespace tandem {
namespace {

RunConfig read(const std::string& text) {
  return read_run_config(ConfigTable::from_text(text, "run.toml"));
}
std::string message(const std::string& text) {
  return message_of<InputError>([&] { read(text); });
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

constexpr const char* everything = R"(
[model]
name = "resnet20"
[data]
kind = "synthetic"
train_size = 5
test_size = 6
[train]
epochs = 7
max_steps = 8
global_batch = 10
accumulate = 5
seed = 11
label_smoothing = 0.125
log_every = 12
eval_every = 13
eval_batch = 14
threads = 15
init = "w.safetensors"
init_skip = ["fc"]
freeze = ["conv1", "layer1"]
freeze_statistics = false
sync_batch_norm = true
ema_decay = 0.75
ema_warmup = true
early_stop_metric = "loss"
early_stop_patience = 20
early_stop_min_delta = 0.25
[optimizer]
kind = "sgd"
lr = 0.5
momentum = 0.75
nesterov = true
weight_decay = 0.0625
decay_norm_and_bias = false
[schedule]
kind = "one-cycle"
[checkpoint]
every_steps = 16
every_epochs = 17
keep = 18
[parallel]
first_bucket_mib = 0.5
bucket_mib = 2
taper_buckets = true
gradient_compression = "bf16"
shared_state = false
reduction = "two_level"
exchange = "nccl"
nccl_max_ctas = 20
nccl_cga_cluster_size = 2
check_every = 19
folded_ranks = 3
sharded_update = false
)";

TEST(RunConfig, IsNoModelFile) {
  const std::string text = message("name = \"mine\"\n[[node]]\nop = \"relu\"\n");
  EXPECT_NE(text.find(":2: node: layers belong into a model file; a run file names that file as "),
            std::string::npos)
      << text;
}

TEST(RunConfig, InitBeginsAtHome) {
  const char* const home = std::getenv("HOME");
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(small_run("init = \"~/w.safetensors\"\n").init, std::string(home) + "/w.safetensors");
  EXPECT_EQ(small_run("init = \"\"\n").init, "");
}

TEST(RunConfig, EveryKeyIsRead) {
  const RunConfig config = read(everything);
  EXPECT_EQ(config.model, "resnet20");
  EXPECT_EQ(config.data.train_size, 5);
  EXPECT_EQ(config.epochs, 7);
  EXPECT_EQ(config.max_steps, 8);
  EXPECT_EQ(config.global_batch, 10);
  EXPECT_EQ(config.global_batch_place, "run.toml:11: train.global_batch");
  EXPECT_EQ(config.accumulate, 5);
  EXPECT_EQ(config.seed, 11U);
  EXPECT_EQ(config.label_smoothing, 0.125F);
  EXPECT_EQ(config.log_every, 12);
  EXPECT_EQ(config.eval_every, 13);
  EXPECT_EQ(config.eval_batch, 14);
  EXPECT_EQ(config.threads, 15);
  EXPECT_EQ(config.init, "w.safetensors");
  EXPECT_EQ(config.init_place, "run.toml:19: train.init");
  EXPECT_TRUE(config.init_skip.match("fc.bias"));
  EXPECT_EQ(config.init_skip.place(), "run.toml:20: train.init_skip");
  EXPECT_TRUE(config.freeze.match("layer1.0.conv1.weight"));
  EXPECT_EQ(config.freeze.place(), "run.toml:21: train.freeze");
  EXPECT_FALSE(config.freeze_statistics);
  EXPECT_TRUE(config.sync_batch_norm);
  EXPECT_EQ(config.average.decay, 0.75);
  EXPECT_TRUE(config.average.warmup);
  EXPECT_EQ(config.early_stop.metric, "loss");
  EXPECT_EQ(config.early_stop.patience, 20);
  EXPECT_EQ(config.early_stop.min_delta, 0.25);
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(std::get<SgdOptions>(config.optimizer.rule).momentum, 0.75F);
  EXPECT_TRUE(std::get<SgdOptions>(config.optimizer.rule).nesterov);
  EXPECT_EQ(config.optimizer.weight_decay, 0.0625);
  EXPECT_FALSE(config.optimizer.decay_norm_and_bias);
  EXPECT_TRUE(std::holds_alternative<OneCycleSchedule>(config.schedule));
  EXPECT_EQ(config.checkpoint_every_steps, 16);
  EXPECT_EQ(config.checkpoint_every_epochs, 17);
  EXPECT_EQ(config.checkpoint_keep, 18);
  EXPECT_EQ(config.first_bucket_bytes, 1 << 19);
  EXPECT_EQ(config.bucket_bytes, 2 << 20);
  EXPECT_EQ(config.gradient_compression, GradientCompression::bf16);
  EXPECT_FALSE(config.shared_state);
  EXPECT_FALSE(config.sharded_update);
  EXPECT_EQ(config.reduction, ReductionKind::two_level);
  EXPECT_EQ(config.taper_buckets, true);
  EXPECT_EQ(config.device_link.exchange, ExchangeKind::nccl);
  EXPECT_EQ(config.device_link.max_ctas, 20);
  EXPECT_EQ(config.device_link.cga_cluster_size, 2);
  EXPECT_EQ(config.check_every, 19);
  EXPECT_EQ(config.folded_ranks, 3);
}

TEST(RunConfig, DefaultsAreThoseOfTheTableAndAreRecorded) {
  const RunConfig config = small_run();
  EXPECT_EQ(config.max_steps, 0);
  EXPECT_EQ(config.accumulate, 1);
  EXPECT_EQ(config.seed, 1U);
  EXPECT_EQ(config.label_smoothing, 0.0F);
  EXPECT_EQ(config.log_every, 50);
  EXPECT_EQ(config.eval_every, 1);
  EXPECT_EQ(config.eval_batch, 0);
  EXPECT_EQ(config.init, "");
  EXPECT_TRUE(config.init_skip.empty());
  EXPECT_TRUE(config.freeze.empty());
  EXPECT_TRUE(config.freeze_statistics);
  EXPECT_FALSE(config.sync_batch_norm);
  EXPECT_EQ(config.average.decay, 0.0);
  EXPECT_FALSE(config.average.warmup);
  EXPECT_EQ(config.early_stop.patience, 0);
  EXPECT_EQ(config.checkpoint_every_steps, 0);
  EXPECT_EQ(config.checkpoint_every_epochs, 1);
  EXPECT_EQ(config.checkpoint_keep, 3);
  EXPECT_EQ(config.first_bucket_bytes, std::nullopt);
  EXPECT_EQ(config.bucket_bytes, std::nullopt);
  EXPECT_EQ(config.gradient_compression, GradientCompression::none);
  EXPECT_TRUE(config.shared_state);
  EXPECT_EQ(config.reduction, ReductionKind::automatic);
  EXPECT_EQ(config.taper_buckets, std::nullopt);
  EXPECT_EQ(config.device_link.exchange, ExchangeKind::automatic);
  EXPECT_EQ(config.device_link.max_ctas, 0);
  EXPECT_FALSE(config.device_link.cga_cluster_size.has_value());
  EXPECT_EQ(config.check_every, 500);
  EXPECT_EQ(config.folded_ranks, 1);
  EXPECT_EQ(config.timeout_seconds, 20.0);
  EXPECT_EQ(config.timeout_seconds, MpiOptions{}.timeout_seconds);
  EXPECT_TRUE(std::holds_alternative<ConstantSchedule>(config.schedule));
  for (const char* line :
       {"accumulate = 1", "seed = 1", "log_every = 50", "eval_every = 1", "keep = 3",
        "every_epochs = 1", "check_every = 500", "max_steps = 0", "kind = \"constant\"",
        "workers = 1", "weight_decay = 0.0", "decay_norm_and_bias = true"}) {
    EXPECT_NE(config.text.find(std::string(line) + "\n"), std::string::npos) << line;
  }
  for (const char* key : {"first_bucket_mib", "bucket_mib"}) {
    EXPECT_EQ(config.text.find(key), std::string::npos) << key << " follows from others";
  }
}

TEST(RunConfig, TheResolvedTextReadAgainIsTheSame) {
  for (const std::string& text : {small_run_text(), std::string(everything)}) {
    const RunConfig first = read(text);
    const RunConfig second = read(first.text);
    EXPECT_EQ(second.text, first.text);
    EXPECT_EQ(second.bucket_bytes, first.bucket_bytes);
    EXPECT_EQ(second.optimizer.learning_rate, first.optimizer.learning_rate);
  }
}

TEST(RunConfig, SideStreamsHaveTheirNames) {
  EXPECT_TRUE(read(everything).update_in_backward);
  EXPECT_FALSE(read(replaced(everything, "seed = 11\n", "seed = 11\nupdate_in_backward = false\n"))
                   .update_in_backward);
  const auto side_work = [](const std::string& name) {
    return read(replaced(everything, "seed = 11\n", "seed = 11\nside_stream = \"" + name + "\"\n"))
        .side_work;
  };
  EXPECT_EQ(read(everything).side_work, SideWork::by_timing);
  EXPECT_EQ(side_work("auto"), SideWork::by_timing);
  EXPECT_EQ(side_work("by_size"), SideWork::by_size);
  EXPECT_EQ(side_work("never"), SideWork::never);
  EXPECT_EQ(side_work("always"), SideWork::always);
}

TEST(RunConfig, LarsHasNoSharedState) {
  const std::string text =
      replaced(replaced(everything, "kind = \"sgd\"", "kind = \"lars\""), "nesterov = true\n", "");
  const std::string asked = replaced(text, "shared_state = false", "shared_state = true");
  EXPECT_NE(message(asked).find("parallel.shared_state: lars takes norms of whole parameters"),
            std::string::npos)
      << message(asked);
  EXPECT_FALSE(read(replaced(text, "shared_state = false\n", "")).shared_state);
}

TEST(RunConfig, GradientsThatTravelAsBf16GoThroughNccl) {
  const std::string text = replaced(everything, "exchange = \"nccl\"\n", "");
  EXPECT_EQ(read(text).device_link.exchange, ExchangeKind::nccl);
  EXPECT_EQ(read(replaced(text, "\"bf16\"", "\"none\"")).device_link.exchange,
            ExchangeKind::automatic);
  const std::string asked = message(replaced(everything, "\"nccl\"", "\"direct\""));
  EXPECT_NE(asked.find("parallel.exchange: gradients that travel as bf16 go through NCCL"),
            std::string::npos)
      << asked;
}

TEST(RunConfig, UnknownKeysAreNamedWithTheNearest) {
  struct Case {
    const char* table;  ///< whose header the wrong line follows
    const char* line;
    const char* key;
    const char* nearest;
  };
  for (const Case& each :
       {Case{"[model]\n", "nam = 1", "model.nam", "name"},
        Case{"[data]\n", "trian_size = 1", "data.trian_size", "train_size"},
        Case{"[train]\n", "epoch = 1", "train.epoch", "epochs"},
        Case{"[optimizer]\n", "momentm = 1", "optimizer.momentm", "momentum"},
        Case{"[schedule]\n", "knd = 1", "schedule.knd", "kind"},
        Case{"[checkpoint]\n", "kep = 1", "checkpoint.kep", "keep"},
        Case{"[parallel]\n", "bucket_mb = 1", "parallel.bucket_mb", "bucket_mib"}}) {
    const std::string found =
        message(replaced(everything, each.table, std::string(each.table) + each.line + "\n"));
    EXPECT_NE(
        found.find(std::string(each.key) + ": unknown key (did you mean '" + each.nearest + "'?)"),
        std::string::npos)
        << found;
    EXPECT_TRUE(found.starts_with("run.toml:")) << found;
  }
  for (const auto& [table, key, meant] : {std::array{"[train]\n", "lr", "optimizer.lr"},
                                          {"[data]\n", "lr", "optimizer.lr"},
                                          {"[optimizer]\n", "pct_start", "schedule.pct_start"},
                                          {"[schedule]\n", "epochs", "train.epochs"}}) {
    const std::string found =
        message(replaced(everything, table, std::string(table) + key + " = 1\n"));
    EXPECT_NE(found.find(fmt::format(".{}: unknown key (did you mean '{}'?)", key, meant)),
              std::string::npos)
        << found;
  }
  const std::string table = message(replaced(everything, "[checkpoint]", "[checkpoints]"));
  EXPECT_NE(table.find("run.toml:38: checkpoints: unknown key (did you mean 'checkpoint'?)"),
            std::string::npos)
      << table;
  const std::string root = message(std::string("trian = 1\n") + everything);
  EXPECT_NE(root.find("run.toml:1: trian: unknown key (did you mean 'train'?)"), std::string::npos)
      << root;
}

TEST(RunConfig, WrongValuesAreNamed) {
  const auto with = [](const char* from, const char* to) {
    return message(replaced(everything, from, to));
  };
  EXPECT_EQ(with("epochs = 7", "epochs = \"7\""),
            "run.toml:9: train.epochs: expected an integer, found a string");
  EXPECT_EQ(with("epochs = 7", "epochs = 0"),
            "run.toml:9: train.epochs: 0 is too small; the least is 1");
  EXPECT_EQ(with("keep = 18", "keep = 0"),
            "run.toml:41: checkpoint.keep: 0 is too small; the least is 1");
  EXPECT_EQ(with("nccl_max_ctas = 20", "nccl_max_ctas = 65"),
            "run.toml:50: parallel.nccl_max_ctas: 65 is too large; the most is 64");
  EXPECT_EQ(with("nccl_cga_cluster_size = 2", "nccl_cga_cluster_size = 9"),
            "run.toml:51: parallel.nccl_cga_cluster_size: 9 is too large; the most is 8");
  const std::string compression = with("\"bf16\"", "\"fp16\"");
  EXPECT_NE(compression.find("run.toml:46: parallel.gradient_compression:"), std::string::npos)
      << compression;
  const std::string reduction = with("\"two_level\"", "\"three_level\"");
  EXPECT_NE(reduction.find("run.toml:48: parallel.reduction:"), std::string::npos) << reduction;
  const std::string exchange = with("\"nccl\"", "\"copies\"");
  EXPECT_NE(exchange.find("run.toml:49: parallel.exchange:"), std::string::npos) << exchange;
  EXPECT_EQ(with("label_smoothing = 0.125", "label_smoothing = 1"),
            "run.toml:14: train.label_smoothing: 1 is out of range; expected 0 to 0.99");
  EXPECT_EQ(with("ema_decay = 0.75", "ema_decay = 0"),
            "run.toml:25: train.ema_warmup: has no effect without ema_decay above 0");
  EXPECT_EQ(with("ema_decay = 0.75", "ema_decay = 1"),
            "run.toml:24: train.ema_decay: 1 is out of range; expected 0 or more, less than 1");
  EXPECT_EQ(with("init = \"w.safetensors\"\n", ""),
            "run.toml:19: train.init_skip: there is nothing to skip without init");
  const std::string missing = with("global_batch = 10\n", "");
  EXPECT_EQ(missing, "run.toml:8: train.global_batch: missing; expected an integer");
  const std::string model = with("resnet20", "resnet21");
  EXPECT_TRUE(model.starts_with(
      "run.toml:3: model.name: no model is called 'resnet21' (did you mean 'resnet20'?)"))
      << model;
}

}  // namespace
}  // namespace tandem
