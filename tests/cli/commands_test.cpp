#include <fmt/format.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/text.h"
#include "cli/run_folder.h"

// Each subcommand alone, and train and eval on two ranks.

namespace tandem::cli {
namespace {

class Commands : public RunTest {};

void expect_all_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in:\n" << text;
  }
}

TEST_F(Commands, HelpNamesEveryOption) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> expected{
      {{},
       {"train", "eval", "bench", "weights", "models", "doctor", "--version", "Exit codes", "75"}},
      {{"train"},
       {"CONFIG", "--set", "KEY=VALUE", "--out", "DIR", "--resume", "PATH", "runs/", "exit code 75",
        "ends with 1", "odls_base_sigkill_timeout"}},
      {{"eval"}, {"TARGET", "--weights", "--set", "--json"}},
      {{"weights"}, {"show", "export", "import"}},
      {{"weights", "show"}, {"FILE"}},
      {{"weights", "export"}, {"CHECKPOINT", "OUT"}},
      {{"weights", "import"}, {"MODEL", "IN", "OUT", "--classes", "--channels"}},
      {{"models"}, {"MODEL", "--size", "--classes", "--channels", "GMACs", "GFLOPs"}},
      {{"bench"}, {"CONFIG", "--set", "--seconds", "--layers", "--json"}},
      {{"launch"},
       {"--gpus", "--ranks-per-gpu", "--colocation", "--sm-percent", "--reuse-mps", "--hosts",
        "--max-restarts", "--dry-run", "exit code 75"}},
      {{"report"}, {"RUN", "--out", "report.html"}},
      {{"doctor"}, {"missing"}},
  };
  for (auto [arguments, parts] : expected) {
    arguments.emplace_back("--help");
    const Outcome outcome = command(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    expect_all_in(outcome.out, parts);
  }
}

TEST_F(Commands, TheLearningRateIsRecordedAsItWasGiven) {
  trained("out", set({"train.max_steps=1", "schedule.kind=constant", "schedule.warmup_epochs=0",
                      "optimizer.lr=0.05"}));
  const std::string metrics = read_file(path("out/metrics.jsonl"));
  EXPECT_NE(metrics.find("\"learning_rate\": 0.05,"), std::string::npos) << metrics;
}

TEST_F(Commands, VersionAndMisuse) {
  EXPECT_EQ(command({"--version"}).out, EXPECTED_VERSION "\n");
  struct Mistake {
    std::vector<std::string> arguments;
    std::string message;
  };
  for (const Mistake& each : std::vector<Mistake>{
           {{}, "tandem: a subcommand is missing: train, eval, "},
           {{"trian", "run.toml"},
            "tandem: no subcommand is called 'trian' (did you mean 'train'?); see tandem --help\n"},
           {{"--bad"}, "tandem: unknown option '--bad'; see tandem --help\n"},
           {{"train"}, "tandem train: CONFIG is required; see tandem train --help\n"},
           {{"train", "--otu=x"},
            "tandem train: unknown option '--otu' (did you mean '--out'?); see tandem train "
            "--help\n"},
           {{"train", "run.toml", "--lr", "1"}, "tandem train: unknown option '--lr'"},
           {{"train", "run.toml", "more"}, "tandem train: unexpected argument 'more'"},
           {{"bench", "run.toml", "--seconds", "x"},
            "tandem bench: --seconds: 'x' is no number from 0.01 to 3600; "},
           {{"launch", "--max-restarts", "1.5", "--", "train", "run.toml"},
            "tandem launch: --max-restarts: '1.5' is no whole number from 0 to 1000000; "},
           {{"weights"}, "tandem weights: a subcommand is missing: show, export, import; "},
           {{"weights", "show"}, "tandem weights show: FILE is required; "},
           {{"launch", "--max-restart", "3", "--", "train", "run.toml"},
            "tandem launch: unknown option '--max-restart' (did you mean '--max-restarts'?)"},
           {{"launch", "train", "run.toml", "--set", "a=b"},
            "tandem launch: unknown option '--set'; put -- before the command and its options: "
            "tandem launch -- train CONFIG --set; see tandem launch --help\n"},
           {{"train", "run.toml", "--out=~/runs"},
            "tandem train: --out: '~/runs' begins with ~, which shells replace after a space "
            "alone; "
            "write $HOME; "},
           {{"launch", "-n", "2", "--", "train", "run.toml"},
            "tandem launch: unknown option '-n'; how many ranks there are say --gpus and "
            "--ranks-per-gpu; see tandem launch --help\n"},
           {{"launch", "--ranks", "2", "--", "train", "run.toml"},
            "tandem launch: unknown option '--ranks'; how many ranks there are say --gpus and "
            "--ranks-per-gpu; see tandem launch --help\n"},
           {{"launch", "--nodes", "2", "--", "train", "run.toml"},
            "tandem launch: unknown option '--nodes'; hosts are named by --hosts; see tandem "
            "launch "
            "--help\n"},
           {{"bench", "run.toml", "--ranks-per-gpu", "4"},
            "tandem bench: unknown option '--ranks-per-gpu'; it is one of tandem launch, which "
            "stand before --: tandem launch --ranks-per-gpu ... -- bench; see tandem bench "
            "--help\n"},
           {{"launch", "--colocation", "fold", "--", "train", "run.toml"},
            "tandem launch: --colocation: 'fold' is not one of processes, folded, auto (did you "
            "mean 'folded'?); see tandem launch --help\n"},
           {{"data", "verify", "x", "--kind", "cifar"},
            "tandem data verify: --kind: 'cifar' is not one of idx, cifar10, cifar100, folder (did "
            "you mean 'cifar10'?); see "},
           {{"eval", "--", "a", "b"}, "tandem eval: unexpected argument 'b'; see tandem eval"},
           {{"launch", "--"}, "tandem launch: COMMAND is required; see tandem launch --help\n"}}) {
    const Outcome outcome = command(each.arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("error: " + each.message, 0), 0U)
        << outcome.err << "wanted: " << each.message;
    EXPECT_EQ(occurrences(outcome.err, "\n"), 1U) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome two = command({"train", "--bad"}, 2);
  EXPECT_EQ(two.code, 2);
  EXPECT_EQ(occurrences(two.err, "error: tandem train: unknown option '--bad'"), 1U) << two.err;
}

TEST_F(Commands, PathsMayNotBeEmpty) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> expected{
      {{"train", "run.toml", "--out", ""}, "tandem train: --out: the path is empty; see "},
      {{"train", ""}, "tandem train: CONFIG: the path is empty"},
      {{"eval", "run.toml", "--weights", ""}, "tandem eval: --weights: the path is empty"},
      {{"bench", "run.toml", "--json", ""}, "tandem bench: --json: the path is empty"},
      {{"tune", "run.toml", "--json", ""}, "tandem tune: --json: the path is empty"},
      {{"report", "out", "--out", ""}, "tandem report: --out: the path is empty"},
      {{"weights", "export", "w", ""}, "tandem weights export: OUT: the path is empty"},
      {{"data", "verify", ""}, "tandem data verify: TARGET: the path is empty"}};
  for (const auto& [arguments, message] : expected) {
    const Outcome outcome = command(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("error: " + message, 0), 0U) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

TEST_F(Commands, AFolderInAFilesPlaceIsSaidToBeOne) {
  std::filesystem::create_directories(path("empty"));
  trained("out", set({"train.max_steps=1"}));
  const std::vector<std::pair<std::vector<std::string>, std::string>> expected{
      {{"train", "empty"}, "empty: a folder; give the path of a TOML file\n"},
      {{"bench", "out"}, "out: a folder; give the path of a TOML file, as out/config.toml\n"},
      {{"eval", "nosuch"},
       "eval nosuch: no such file or folder; give a run's folder, or a config with --weights "
       "FILE\n"},
      {{"eval", "empty"}, "eval empty: a folder without config.toml, so no run's; "},
      {{"eval", "out", "--weights", "empty"}, "'empty' is a folder; give a checkpoint or "},
      {{"weights", "export", "out", "w"},
       "'out' is a folder; give a checkpoint or a weights file (.safetensors), as "
       "out/checkpoints/best.safetensors\n"},
      {{"weights", "export", "out/checkpoints/best.safetensors", "empty"},
       "'empty' exists and is no ordinary file but a folder; "},
      {{"data", "verify", "run.toml", "--set", "data.kind=idx", "--set", "data.train_images=empty"},
       "--set data.train_images=empty: data.train_images: empty: a folder; give the path of a "
       "file\n"}};
  for (const auto& [arguments, message] : expected) {
    const Outcome outcome = command(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("error: " + message, 0), 0U) << outcome.err;
  }
}

// Whoever redirects the output must not take a full disk for success.
TEST_F(Commands, OutputThatCannotBeWrittenIsAnError) {
  const Outcome outcome =
      run({.command = {"/bin/sh", "-c", tandem({"models"})[0] + " models >/dev/full"},
           .folder = root()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("the standard output cannot be written"), std::string::npos)
      << outcome.err;
}

TEST_F(Commands, ModelsListsTheZoo) {
  const Outcome outcome = command({"models"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Parameter counts are torchvision's.
  expect_all_in(outcome.out, {"resnet8", "resnet20", "resnet32", "resnet56", "11,689,512",
                              "21,797,672", "25,557,032", "44,549,160", "60,192,808"});
  const Outcome one = command({"models", "resnet18", "--classes", "10", "--size", "32"});
  ASSERT_EQ(one.code, 0) << one.err;
  // torchvision's resnet18 with ten classes: 990 * 513 fewer.
  expect_all_in(one.out, {"32x32x3", "11,181,642"});
  const Outcome none = command({"models", "resnet19"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err.rfind("error: no model is called 'resnet19'", 0), 0U) << none.err;
}

TEST_F(Commands, DoctorSaysWhatThereIs) {
  const Outcome outcome = command({"doctor"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_all_in(outcome.out, {"machine", "cores", "oneDNN", "MPI", "mpirun", "GPU", "CUDA", "cuDNN",
                              "NCCL", "MPS", "model zoo"});
  // mpirun refuses root unless it is told.
  EXPECT_EQ(outcome.out.find("mpirun --allow-run-as-root -n ") != std::string::npos,
            ::geteuid() == 0)
      << outcome.out;
}

/// The records that a run of `steps` steps in epochs of `steps_per_epoch` leaves behind.
void expect_records(const std::vector<Record>& records, int steps, int steps_per_epoch) {
  ASSERT_EQ(records.size(), static_cast<std::size_t>(2 + steps + steps / steps_per_epoch));
  EXPECT_EQ(records[0].event, "start");
  int step = 0;
  for (std::size_t i = 1; i + 1 < records.size(); ++i) {
    const Record& record = records[i];
    if (record.event == "train") ++step;
    EXPECT_EQ(record["step"], step);
    EXPECT_EQ(record["epoch"], (step - 1) / steps_per_epoch + 1);
    for (const char* key : {"loss", "top1", "top5", "samples", "seconds"}) {
      EXPECT_TRUE(record.numbers.contains(key)) << key;
    }
    EXPECT_GE(record["seconds"], 0.0);
    if (record.event == "train") {
      EXPECT_EQ(record["samples"], 32);
      for (const char* key : {"learning_rate", "images_per_second", "data_wait_seconds",
                              "exposed_communication_seconds"}) {
        EXPECT_TRUE(record.numbers.contains(key)) << key;
      }
      continue;
    }
    EXPECT_EQ(record.event, "evaluation");
    EXPECT_EQ(step % steps_per_epoch, 0);
    EXPECT_EQ(record["samples"], 70);
    EXPECT_TRUE(record.numbers.contains("best"));
  }
  EXPECT_EQ(step, steps);
  EXPECT_EQ(records.back().event, "end");
  EXPECT_EQ(records.back().texts.at("ending"), "finished");
  EXPECT_EQ(records.back()["step"], steps);
  EXPECT_EQ(records.back()["steps"], steps);
  EXPECT_FALSE(records.back().texts.contains("reason"));
}

void expect_learned(const std::filesystem::path& folder) {
  const std::map<int, double> losses = train_losses(folder);
  EXPECT_GT(losses.at(1), 1.0);  // about log 4
  EXPECT_LT(losses.at(32), 0.3);
  EXPECT_GE(read_metrics(folder, "evaluation").back()["top1"], 0.9);
}

class TrainAndEval : public RunTest, public testing::WithParamInterface<int> {};

TEST_F(RunTest, MoreThreadsThanCoresAreWarnedOf) {
  const unsigned threads = std::thread::hardware_concurrency() + 1;
  const std::string setting = fmt::format("train.threads={}", threads);
  const Outcome outcome = train("out", set({setting, "train.max_steps=1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.err.find(fmt::format("warning: train.threads is {}, and a rank's share ", threads)),
      std::string::npos)
      << outcome.err;
}

TEST_F(RunTest, MilestonesBehindTheEndAreWarnedOf) {
  const auto warning = [](const char* end) {
    return std::string("schedule.milestones: 2 of 3 not before the run's end, epoch ") + end + "\n";
  };
  const std::vector<std::string> options = set({"train.epochs=1", "schedule.kind=step"});
  const auto said = [&](const char* out, const std::string& milestones) {
    const Outcome outcome = train(out, set({"schedule.milestones=" + milestones}, options));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(said("late", "[0.5, 1, 2]").find(warning("1")), std::string::npos);
  const Outcome outcome =
      train("ended",
            set({"schedule.kind=step", "train.max_steps=4", "schedule.milestones=[0.25, 0.5, 1]"}));
  EXPECT_NE(outcome.err.find(warning("0.5")), std::string::npos) << outcome.err;
  EXPECT_EQ(said("early", "[0.5]").find("milestones"), std::string::npos);
}

TEST_F(RunTest, OneClassIsWarnedOf) {
  const std::string warning = "warning: the data has one class: there is nothing to tell apart";
  EXPECT_NE(train("one", set({"data.classes=1", "train.max_steps=1"})).err.find(warning),
            std::string::npos);
  EXPECT_EQ(train("some", set({"train.max_steps=1"})).err.find(warning), std::string::npos);
}

TEST_P(TrainAndEval, LeaveTheDocumentedRecord) {
  const int ranks = GetParam();
  const Outcome outcome = train("out", {}, ranks);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");  // what is for people goes to standard error
  expect_all_in(outcome.err, {fmt::format("{} rank", ranks), "resnet8: 77,364 parameters",
                              "270 training and 70 test samples", "14 samples are left out",
                              "epoch 4/4", "done: out holds"});
  const std::vector<Record> records = read_metrics(path("out"));
  expect_records(records, 32, 8);
  EXPECT_EQ(records[0]["ranks"], ranks);
  EXPECT_EQ(records[0]["threads_per_rank"], 1);
  EXPECT_EQ(records[0]["parameters"], 77364);
  EXPECT_EQ(records[0]["dropped_samples_per_epoch"], 14);
  EXPECT_EQ(records[0]["resumed_at_step"], 0);
  for (const char* key : {"date", "host", "command", "tandem", "compiler", "cpu", "communicator"}) {
    EXPECT_NE(records[0].texts.at(key), "") << key;
  }
  EXPECT_EQ(records[0].texts.at("communicator"), ranks == 1 ? "self" : "colocated");
  expect_learned(path("out"));
  expect_all_in(read_file(path("out/train.log")), {"epoch 4: test top-1", "done: out holds"});
  EXPECT_EQ(checkpoint_steps(path("out")), (std::vector<int>{16, 24, 32}));

  // The resolved config is a config, and says the same.
  const Outcome again = run(
      {.command = on_ranks(ranks, {"train", "out/config.toml", "--out", "b"}), .folder = root()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_file(path("b/config.toml")), read_file(path("out/config.toml")));
  expect_same_checkpoint(checkpoint(path("out"), 32), checkpoint(path("b"), 32));

  const Outcome evaluated =
      command({"eval", "out", "--json", "--weights", checkpoint("out", 32).string()}, ranks);
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Record last = read_metrics(path("out"), "evaluation").back();
  expect_all_in(evaluated.out, {"\"samples\": 70", fmt::format("\"top1\": {}", last["top1"])});
  const Outcome plain = command({"eval", "out"}, ranks);
  expect_all_in(plain.out, {"best.safetensors: top-1", "on 70 samples"});
  EXPECT_EQ(occurrences(plain.out, "\n"), 1U);  // rank 0 alone speaks
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainAndEval, testing::Values(1, 2));

TEST_F(Commands, KeepLastAndBest) {
  trained("five", set({"checkpoint.keep=5", "checkpoint.every_steps=3", "train.epochs=2"}));
  EXPECT_EQ(checkpoint_steps(path("five")), (std::vector<int>{8, 9, 12, 15, 16}));
  // Everything is learned before the end, so that the best is not among the last two.
  trained("out", set({"train.epochs=8", "checkpoint.keep=2"}));
  EXPECT_EQ(checkpoint_steps(path("out")), (std::vector<int>{56, 64}));
  double best = -1.0;
  int best_step = 0;
  for (const Record& record : read_metrics(path("out"), "evaluation")) {
    EXPECT_EQ(record["best"], record["top1"] > best ? 1.0 : 0.0);
    if (record["top1"] <= best) continue;
    best = record["top1"];
    best_step = static_cast<int>(record["step"]);
  }
  ASSERT_LT(best_step, 56);
  const Outcome shown = command({"weights", "show", "out/checkpoints/best.safetensors"});
  expect_all_in(shown.out,
                {fmt::format("# step = {}\n", best_step), fmt::format("# best_top1 = {}\n", best)});
  const Outcome evaluated = command({"eval", "out", "--json"});
  expect_all_in(evaluated.out, {"best.safetensors", fmt::format("\"top1\": {}", best)});
}

// As some daemons start programs: nothing is printed into what is opened next.
TEST_F(Commands, ClosedStreamsAreNobodyElses) {
  const Outcome outcome = run(
      {.command = {"sh", "-c",
                   join(train_command("out", set({"train.max_steps=3"})), " ") + " <&- >&- 2>&-"},
       .folder = root()});
  EXPECT_EQ(outcome.code, 0);
  const std::string metrics = read_file(path("out/metrics.jsonl"));
  EXPECT_TRUE(metrics.starts_with("{")) << metrics;
  EXPECT_EQ(train_losses(path("out")).size(), 3U);
}

// Of such batches no memory would do.
TEST_F(Commands, EvaluatesNoMoreSamplesAtOnceThanThereAre) {
  trained("out", set({"train.max_steps=1", "train.eval_batch=1048576"}));
  EXPECT_EQ(read_metrics(path("out"), "evaluation").size(), 1U);
}

TEST_F(Commands, MaxStepsEndsARunAsIfFinished) {
  trained("whole");
  trained("cut", set({"train.max_steps=11"}));
  std::map<int, double> whole = train_losses(path("whole"));
  whole.erase(whole.upper_bound(11), whole.end());
  EXPECT_EQ(train_losses(path("cut")), whole);  // the schedule is the whole run's
  EXPECT_EQ(checkpoint_steps(path("cut")), (std::vector<int>{8, 11}));
  const std::vector<Record> evaluations = read_metrics(path("cut"), "evaluation");
  ASSERT_EQ(evaluations.size(), 2U);
  EXPECT_EQ(evaluations[1]["step"], 11);
  // And it can go on.
  trained("cut", set({"train.max_steps=0"}, {"--resume"}));
  EXPECT_EQ(train_losses(path("cut")), train_losses(path("whole")));
}

TEST_F(Commands, WeightsShowExportImport) {
  trained("out", set({"train.max_steps=2"}));
  const std::string from = checkpoint("out", 2).string();
  const Outcome shown = command({"weights", "show", from});
  EXPECT_EQ(shown.code, 0) << shown.err;
  expect_all_in(shown.out, {"conv1.weight", "layer1.0.bn2.running_mean", "optimizer.momentum.",
                            "fc.bias", "# model = resnet8", "# step = 2"});
  EXPECT_EQ(command({"weights", "export", from, "w.safetensors"}).code, 0);
  const Outcome exported = command({"weights", "show", "w.safetensors"});
  EXPECT_EQ(exported.out.find("optimizer."), std::string::npos);
  expect_all_in(exported.out, {"conv1.weight", "num_batches_tracked"});
  const Outcome imported = command({"weights", "import", "resnet8", "w.safetensors",
                                    "i.safetensors", "--classes", "4", "--channels", "1"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(largest_difference(path("w.safetensors"), path("i.safetensors")), 0.0);
  // What came out goes in: the same evaluation, and a start that is no restart.
  // The evaluation's batch is the training's: another one may round otherwise.
  const Outcome evaluated = command(
      {"eval", "run.toml", "--weights", "i.safetensors", "--json", "--set", "train.eval_batch=32"});
  const Record last = read_metrics(path("out"), "evaluation").back();
  expect_all_in(evaluated.out, {fmt::format("\"loss\": {}", last["loss"])});
  trained("from", set({"train.init=i.safetensors", "train.max_steps=1"}));
  EXPECT_NE(train_losses(path("from")).at(1), train_losses(path("out")).at(1));
  const Outcome wrong = command({"weights", "import", "resnet20", "w.safetensors", "x"});
  EXPECT_EQ(wrong.code, 2);
  expect_all_in(wrong.err, {"w.safetensors does not fit the model", "is missing", "and "});
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  for (const char* option : {"--classes", "--channels"}) {
    for (const char* number : {"0", "-5"}) {
      const Outcome none =
          command({"weights", "import", "resnet8", "w.safetensors", "x", option, number});
      EXPECT_EQ(none.code, 2);
      expect_all_in(none.err, {std::string("tandem weights import: ") + option, number});
    }
  }
}

TEST_F(Commands, EvalSaysThatWeightsAreNoConfig) {
  trained("out", set({"train.max_steps=1"}));
  const Outcome outcome = command({"eval", "out/checkpoints/best.safetensors"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(
      outcome.err,
      "error: eval out/checkpoints/best.safetensors: a checkpoint or a weights file; give its "
      "run's folder, or a config with --weights out/checkpoints/best.safetensors\n");
}

}  // namespace
}  // namespace tandem::cli
