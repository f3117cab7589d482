#include <cmath>
#include <cstring>

#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "train/checkpoints/safetensors.h"

// Recipes through the whole program: what they write, what stops a run, and that a resumed run does
// what a run without a stop does.

namespace tandem::cli {
namespace {

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Recipe : public RunTest {
 protected:
  Recipe() {
    replace_in(root() / "run.toml", "kind = \"sgd\"\nlr = 0.1\nmomentum = 0.9\nnesterov = true\n",
               "kind = \"adamw\"\nlr = 0.01\nclip_norm = 0.5\n");
  }
};

class RecipeOnRanks : public Recipe, public testing::WithParamInterface<int> {};

TEST_P(RecipeOnRanks, AdamWWithAverageAndClippingResumesBitExactly) {
  const int ranks = GetParam();
  const std::vector<std::string> options =
      set({"checkpoint.every_steps=5", "checkpoint.keep=100", "train.ema_decay=0.9",
           "parallel.check_every=4", "train.sync_batch_norm=true", "train.freeze=['conv1']"});
  trained("whole", options, ranks);
  trained("part", set({"train.max_steps=13"}, options), ranks);
  for (const int from : {13, 5}) {
    trained("part", joined(options, {"--resume", checkpoint(path("part"), from).string()}), ranks);
    EXPECT_EQ(train_losses(path("part")), train_losses(path("whole")));
    expect_same_checkpoint(checkpoint(path("part"), 32), checkpoint(path("whole"), 32));
  }
  const SafetensorsFile file(checkpoint(path("whole"), 32));
  EXPECT_NE(file.find("ema.layer1.0.conv1.weight"), nullptr);
  EXPECT_NE(file.find("optimizer.exp_avg_sq.fc.bias"), nullptr);
  EXPECT_EQ(file.find("optimizer.exp_avg_sq.conv1.weight"), nullptr) << "it is frozen";
  EXPECT_GT(read_metrics(path("whole"), "train")[0]["gradient_norm"], 0.0);
}

/// Its metric cannot improve: the first evaluation is the best.
TEST_P(RecipeOnRanks, EndsEarlyAndKeepsItsEnd) {
  const int ranks = GetParam();
  const std::vector<std::string> options =
      set({"train.early_stop_patience=2", "train.early_stop_min_delta=1", "train.epochs=20",
           "checkpoint.every_epochs=100"});
  const Outcome outcome = train("out", options, ranks);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("stopping early at step 24 of 160: top1 has not risen by more than 1 "
                             "above"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(read_metrics(path("out"), "evaluation").size(), 3U);
  const Record end = read_metrics(path("out")).back();
  EXPECT_EQ(end.event, "end");
  EXPECT_EQ(end.texts.at("ending"), "early_stop");
  EXPECT_EQ(end["step"], 24);
  EXPECT_EQ(end["steps"], 160);
  EXPECT_EQ(end.texts.at("reason").find("top1 has not risen by more than 1 above"), 0U);
  EXPECT_EQ(checkpoint_steps(path("out")).back(), 24);
  // It stays ended, and more patience lets it go on from what was counted.
  const Outcome again = train("out", joined(options, {"--resume"}), ranks);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("stopping early at step 24"), std::string::npos) << again.err;
  EXPECT_EQ(train_losses(path("out")).rbegin()->first, 24);
  const Outcome more =
      train("out", joined(options, set({"train.early_stop_patience=3"}, {"--resume"})), ranks);
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find("stopping early at step 32"), std::string::npos) << more.err;
  EXPECT_EQ(train_losses(path("out")).rbegin()->first, 32);
  EXPECT_EQ(read_metrics(path("out"), "end").back()["step"], 32);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RecipeOnRanks, testing::Values(1, 2, 4));

// What is evaluated, called the best and exported is the average.
TEST_F(Recipe, TheAverageIsEvaluatedAndExported) {
  trained("out", set({"train.ema_decay=0.8"}));
  const std::string file = checkpoint("out", 32).string();
  ASSERT_EQ(command({"weights", "export", file, "average"}).code, 0);
  ASSERT_EQ(command({"weights", "export", file, "trained", "--trained"}).code, 0);
  const SafetensorsFile run(path(file));
  const SafetensorsFile average(path("average"));
  const SafetensorsFile last(path("trained"));
  EXPECT_EQ(average.tensors().size(), last.tensors().size());
  const NamedTensor& a = average.at("fc.weight");
  const NamedTensor& t = last.at("fc.weight");
  EXPECT_EQ(std::memcmp(a.data, run.at("ema.fc.weight").data, a.bytes()), 0);
  EXPECT_EQ(std::memcmp(t.data, run.at("fc.weight").data, t.bytes()), 0);
  EXPECT_NE(std::memcmp(a.data, t.data, a.bytes()), 0);
  // tandem eval finds what the run found, which the trained weights do not give.
  const double loss = read_metrics(path("out"), "evaluation").back()["loss"];
  const auto evaluated = [&](const std::string& weights) {
    const Outcome outcome = command({"eval", "run.toml", "--weights", weights, "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::stod(outcome.out.substr(outcome.out.find("\"loss\":") + 7));
  };
  EXPECT_NEAR(evaluated(file), loss, 1e-6 * loss);
  EXPECT_NEAR(evaluated("average"), loss, 1e-6 * loss);
  EXPECT_GT(std::abs(evaluated("trained") - loss), 1e-3 * loss);
}

TEST_F(Recipe, FineTunesWithOtherClassesAndAFrozenBody) {
  trained("first", set({"train.epochs=1"}));
  const std::string init = "train.init=" + checkpoint("first", 8).string();
  const std::vector<std::string> other = set({"data.classes=7", init, "train.epochs=1"});
  const Outcome refused = train("refused", other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(
      refused.err.find(
          "'fc.weight' is f32 4x64, the model has f32 7x64; 'fc.bias' is f32 4, "
          "the model has f32 7; give weights of the same model, classes and input channels, or "
          "name what is to start anew in train.init_skip"),
      std::string::npos)
      << refused.err;
  const Outcome tuned = train(
      "tuned",
      set({"train.init_skip=['fc']", "train.freeze=['conv1', 'bn1', 'layer1', 'layer2', 'layer3']"},
          other));
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("by train.init_skip fc.weight, fc.bias start anew"), std::string::npos)
      << tuned.err;
  EXPECT_NE(tuned.err.find("parameters are frozen; their normalisations' statistics too"),
            std::string::npos)
      << tuned.err;
  const SafetensorsFile before(checkpoint(path("first"), 8));
  const SafetensorsFile after(checkpoint(path("tuned"), 8));
  for (const char* name : {"conv1.weight", "layer3.0.bn1.bias", "layer2.0.bn2.running_mean"}) {
    const NamedTensor& tensor = before.at(name);
    EXPECT_EQ(std::memcmp(tensor.data, after.at(name).data, tensor.bytes()), 0) << name;
  }
  EXPECT_EQ(after.at("fc.weight").shape, Shape({7, 64}));
}

TEST_F(Recipe, WrongPartsAreNamed) {
  const auto message = [&](const std::string& assignment) {
    const Outcome outcome = train("out", set({assignment}));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(message("train.freeze=['layr1']")
                .find("train.freeze: 'layr1' is the beginning of no "
                      "parameter's name in resnet8 (did you mean "
                      "'layer1'?)"),
            std::string::npos);
  EXPECT_NE(message("train.freeze=['conv1','bn1','layer1','layer2','layer3','fc']")
                .find("train.freeze: every parameter of resnet8 is frozen; leave some to train"),
            std::string::npos);
}

/// The largest relative difference of a step's loss between two runs of the same length.
double furthest_loss(const std::filesystem::path& a, const std::filesystem::path& b) {
  const std::map<int, double> wanted = train_losses(b);
  const std::map<int, double> found = train_losses(a);
  EXPECT_EQ(found.size(), wanted.size());
  double largest = 0.0;
  for (const auto& [step, loss] : found) {
    largest = std::max(largest, std::abs(loss - wanted.at(step)) / wanted.at(step));
  }
  std::printf("%s: losses differ by up to %.2e\n", a.filename().c_str(), largest);
  return largest;
}
constexpr double rounding = 1e-6;  ///< measured: 1.1e-7 with any instruction set

// k ranks with synchronised statistics are one rank with the whole batch; without, they are not.
TEST_F(Recipe, SynchronisedRanksFollowOneRankWithTheWholeBatch) {
  const std::vector<std::string> options =
      set({"train.sync_batch_norm=true", "train.max_steps=8", "optimizer.lr=1e-3", smooth_model()});
  trained("one", options);
  for (const int ranks : {2, 4}) {
    const std::string out = "sync" + std::to_string(ranks);
    trained(out, options, ranks);
    EXPECT_LT(furthest_loss(path(out), path("one")), rounding);
  }
  trained("apart", set({"train.max_steps=8", "optimizer.lr=1e-3", smooth_model()}), 2);
  EXPECT_GT(furthest_loss(path("apart"), path("one")), 1e-2);
}

const std::vector<std::string> mixing{"data.augment.mixup=0.4", "data.augment.cutmix=1.0"};

// So the same samples are mixed the same way, whoever trains on them.
TEST_F(Recipe, MixedRanksFollowOneRankWithTheWholeBatch) {
  const std::vector<std::string> plain = set(
      {"train.sync_batch_norm=true", "train.max_steps=12", "optimizer.lr=1e-3", smooth_model()});
  const std::vector<std::string> options = set(mixing, plain);
  trained("one", options);
  trained("two", options, 2);
  trained("four", options, 4);
  trained("plain", plain);
  EXPECT_LT(furthest_loss(path("two"), path("one")), rounding);
  EXPECT_LT(furthest_loss(path("four"), path("one")), rounding);
  EXPECT_GT(furthest_loss(path("plain"), path("one")), 1e-2);
}

TEST_P(RecipeOnRanks, MixingResumesBitExactly) {
  const int ranks = GetParam();
  const std::vector<std::string> options =
      set({"checkpoint.every_steps=5", "checkpoint.keep=100", "train.epochs=2"}, set(mixing));
  trained("whole", options, ranks);
  trained("part", set({"train.max_steps=13"}, options), ranks);
  for (const int from : {10, 5}) {
    trained("part", joined(options, {"--resume", checkpoint(path("part"), from).string()}), ranks);
    EXPECT_EQ(train_losses(path("part")), train_losses(path("whole")));
    expect_same_checkpoint(checkpoint(path("part"), 16), checkpoint(path("whole"), 16));
  }
}

// What a run that mixes finds in its evaluation, a run file that does not mix finds too.
TEST_F(Recipe, EvaluationNeverMixes) {
  trained("out", set({"train.epochs=2"}, set(mixing)));
  const double loss = read_metrics(path("out"), "evaluation").back()["loss"];
  const std::string file = checkpoint(path("out"), 16).string();
  for (const char* config : {"run.toml", "out/config.toml"}) {
    const Outcome outcome = command({"eval", config, "--weights", file, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const double found = std::stod(outcome.out.substr(outcome.out.find("\"loss\":") + 7));
    EXPECT_NEAR(found, loss, 1e-6 * loss) << config;
  }
}

}  // namespace
}  // namespace tandem::cli
