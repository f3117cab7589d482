#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "graph/fusion.h"
#include "graph/step_plan.h"
#include "parallel/mpi_test.h"
#include "train/small_run.h"
#include "train/step/replica.h"

// Clipping, frozen parameters, AdamW and the weights' average on k ranks, against four passes of
// four samples on one rank with everything behind the gradients written out in double precision.

namespace tandem {
namespace {

constexpr int slices = 4;
constexpr int steps = 8;
constexpr float rate = 2e-3F;

/// See difference(); after all steps. Measured: 1.2e-7.
constexpr double tolerance = 1e-6;

struct Recipe {
  std::string train;      ///< lines of [train]
  std::string optimizer;  ///< further lines of [optimizer]
};

using Weights = std::map<std::string, std::vector<double>>;

/// A run of four slices a step, shared out over `world` ranks.
struct SmallData {
  RunConfig config;
  std::unique_ptr<Dataset> train;
  Transform transform;
  DistributedSampler sampler;

  SmallData(const Recipe& recipe, int accumulate, int world, int rank)
      : config(read_run_config(ConfigTable::from_text(text(recipe, accumulate), "run.toml"))),
        train(std::move(open_datasets(config.data).train)),
        transform(make_transform(config.data, true)),
        sampler({.size = train->size(),
                 .global_batch = config.global_batch,
                 .world = world,
                 .rank = rank,
                 .accumulate = accumulate,
                 .seed = config.seed}) {}

  static std::string text(const Recipe& recipe, int accumulate) {
    std::string all =
        small_run_text("accumulate = " + std::to_string(accumulate) + "\n" + recipe.train,
                       "lr = 0.002\nweight_decay = 0.1\n" + recipe.optimizer);
    return all.replace(all.find("\"sgd\""), 5, "\"adamw\"");
  }
  Graph graph() const { return smooth_graph(config, train->classes()); }
  DataLoader::Options loading() const {
    return {.batch = static_cast<int>(sampler.micro_batch()), .seed = config.seed};
  }
};

Weights read(const ParameterStore& store) {
  Weights weights;
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const std::span<const float> values = store.value(i).span<float>();
    weights[store.parameters()[i].name] = {values.begin(), values.end()};
  }
  return weights;
}

struct Outcome {
  Weights trained;
  Weights average;
  std::vector<double> norms{};
  std::size_t reduced = 0;  ///< parameters in the buckets
};

Outcome train_together(const Recipe& recipe) {
  const SmallData data(recipe, slices / world().size(), world().size(), world().rank());
  AnyContext context(CpuContext(1));
  Replica replica(data.config, data.graph(), data.sampler.micro_batch(), context, world());
  replica.broadcast_from_root();
  DataLoader loader(*data.train, data.transform, training_batches(data.sampler), data.loading());
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const StepResult done =
        replica.step([&]() -> const Batch& { return *loader.next(); }, rate, false);
    if (done.gradient_norm) outcome.norms.push_back(*done.gradient_norm);
  }
  replica.check_bits();
  outcome.trained = read(replica.store());
  outcome.average = read(replica.evaluated_store());
  outcome.reduced = replica.bucketer().slices().size();
  return outcome;
}

/// The definitions: the mean gradient over the slices, clipped by the norm over all that is
/// trained; AdamW (lr 0.002, decay 0.1, betas 0.9 and 0.999, epsilon 1e-8); the average.
struct Definition {
  double max_norm = 0.0;
  double ema_decay = 0.0;
  std::vector<std::string> frozen{};
  bool trains(const std::string& name) const {
    return std::ranges::none_of(frozen, [&](const auto& f) { return name.starts_with(f); });
  }
};

void adamw(std::vector<double>& w, const std::vector<double>& g, std::vector<double>& m,
           std::vector<double>& v, int t) {
  const auto lr = static_cast<double>(rate);
  for (std::size_t i = 0; i < w.size(); ++i) {
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    const double step =
        m[i] / (1.0 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1.0 - std::pow(0.999, t))) + 1e-8);
    w[i] -= lr * (step + 0.1 * w[i]);
  }
}

Outcome train_by_hand(const Recipe& recipe, const Definition& definition) {
  // The plan here trains everything: what is frozen is only left out of the update.
  Recipe all = recipe;
  all.train.clear();
  const SmallData data(all, slices, 1, 0);
  AnyContext context(CpuContext(1));
  const Graph graph = fuse(data.graph());
  ParameterStore store(graph, context, true);
  store.initialize(data.config.seed);
  StepPlan plan(graph, store, context, {.batch = data.sampler.micro_batch(), .training = true});
  DataLoader loader(*data.train, data.transform, training_batches(data.sampler), data.loading());
  Outcome outcome{.trained = read(store), .average = read(store)};
  Weights m;
  Weights v;
  for (int t = 1; t <= steps; ++t) {
    Weights gradient;
    double squares = 0.0;
    for (int slice = 0; slice < slices; ++slice) {
      const Batch* batch = loader.next();
      plan.forward(batch->images, {batch->labels}, batch->valid);
      plan.backward(false, [](std::span<const std::size_t>) {});
      for (std::size_t p = 0; p < store.parameters().size(); ++p) {
        std::vector<double>& sum = gradient[store.parameters()[p].name];
        const std::span<const float> g = store.gradient(p).span<float>();
        sum.resize(g.size());
        for (std::size_t i = 0; i < g.size(); ++i) sum[i] += static_cast<double>(g[i]) / slices;
      }
    }
    for (const auto& [name, g] : gradient) {
      if (!definition.trains(name)) continue;
      for (const double each : g) squares += each * each;
    }
    outcome.norms.push_back(std::sqrt(squares));
    for (auto& [name, g] : gradient) {
      if (definition.max_norm > 0.0 && outcome.norms.back() > definition.max_norm) {
        for (double& each : g) each *= definition.max_norm / outcome.norms.back();
      }
      std::vector<double>& w = outcome.trained[name];
      m[name].resize(w.size());
      v[name].resize(w.size());
      if (definition.trains(name)) adamw(w, g, m[name], v[name], t);
      std::vector<double>& average = outcome.average[name];
      for (std::size_t i = 0; i < w.size(); ++i) {
        average[i] = definition.ema_decay * average[i] + (1.0 - definition.ema_decay) * w[i];
      }
    }
    for (std::size_t p = 0; p < store.parameters().size(); ++p) {
      std::ranges::copy(outcome.trained[store.parameters()[p].name], store.value(p).data<float>());
    }
  }
  return outcome;
}

/// The norm of the difference over the norm of `b`, all parameters together.
double difference(const Weights& a, const Weights& b) {
  double squares = 0.0;
  double scale = 0.0;
  for (const auto& [name, values] : b) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      squares += (a.at(name)[i] - values[i]) * (a.at(name)[i] - values[i]);
      scale += values[i] * values[i];
    }
  }
  return std::sqrt(squares / scale);
}

void expect_close(const char* what, const Weights& together, const Weights& by_hand) {
  const double found = difference(together, by_hand);
  if (world().rank() == 0) {
    std::printf("%s on %d ranks: differ by %.2e\n", what, world().size(), found);
  }
  EXPECT_LT(found, tolerance) << what;
}

TEST(RecipeParallel, ClippingIsOfTheReducedGradient) {
  const Recipe recipe{.train = {}, .optimizer = "clip_norm = 0.8\n"};
  const Outcome together = train_together(recipe);
  const Outcome by_hand = train_by_hand(recipe, {.max_norm = 0.8});
  expect_close("clipped", together.trained, by_hand.trained);
  ASSERT_EQ(together.norms.size(), by_hand.norms.size());
  int clipped = 0;
  for (std::size_t i = 0; i < together.norms.size(); ++i) {
    EXPECT_NEAR(together.norms[i], by_hand.norms[i], 1e-4 * by_hand.norms[i]);
    clipped += by_hand.norms[i] > 0.8 ? 1 : 0;
  }
  EXPECT_GT(clipped, 0);
  std::string norms;
  for (const double norm : together.norms) norms += fmt::format("{} ", norm);
  expect_same_everywhere(norms);
  // The comparison sees what it is for.
  EXPECT_GT(difference(together.trained, train_by_hand(recipe, {}).trained), 10 * tolerance);
}

TEST(RecipeParallel, FrozenParametersStayAndAreNotReduced) {
  // In the middle of the model, so that the gradient passes through what is frozen.
  const Recipe recipe{.train = "freeze = [\"layer2\"]\nfreeze_statistics = false\n",
                      .optimizer = "clip_norm = 0.8\n"};
  const Outcome together = train_together(recipe);
  const Outcome by_hand = train_by_hand(recipe, {.max_norm = 0.8, .frozen = {"layer2."}});
  expect_close("frozen", together.trained, by_hand.trained);
  const Outcome start = train_by_hand({}, {.frozen = {""}});
  std::size_t trained = 0;
  for (const auto& [name, values] : together.trained) {
    if (name.starts_with("layer2.")) {
      EXPECT_EQ(values, start.trained.at(name)) << name;
    } else {
      EXPECT_NE(values, start.trained.at(name)) << name;
      ++trained;
    }
  }
  EXPECT_EQ(together.reduced, trained);
}

TEST(RecipeParallel, TheAverageFollowsTheWeights) {
  const Recipe recipe{.train = "ema_decay = 0.75\n", .optimizer = {}};
  const Outcome together = train_together(recipe);
  const Outcome by_hand = train_by_hand(recipe, {.ema_decay = 0.75});
  expect_close("weights", together.trained, by_hand.trained);
  expect_close("average", together.average, by_hand.average);
  EXPECT_GT(difference(together.average, together.trained), 10 * tolerance);
}

}  // namespace
}  // namespace tandem
