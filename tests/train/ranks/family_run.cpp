#include "train/ranks/family_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "device/pinned_memory.h"
#include "graph/model_file.h"
#include "support/shift_norms.h"
#include "tensor/host_tensor.h"
#include "train/step/device_input.h"
#include "train/step/replica.h"
#include "train/values.h"

namespace tandem {
namespace {

constexpr float rate = 5e-4F;

std::string run_text(const Family& family, const Recipe& recipe) {
  std::string text = fmt::format("[model]\nname = \"{}\"\ndropout = {}\n", family.model,
                                 recipe.random ? 0.3 : 0.0);
  if (family.stochastic_depth) {
    text += fmt::format("stochastic_depth = {}\n", recipe.random ? 0.3 : 0.0);
  }
  text += fmt::format("[data]\nkind = \"synthetic\"\ntrain_size = {}\n", 3 * recipe.global_batch);
  text += R"(test_size = 4
height = 32
width = 32
channels = 3
classes = 4
[optimizer]
kind = "sgd"
lr = 5e-4
momentum = 0.9
[train]
epochs = 2
threads = 1
)";
  text += fmt::format("global_batch = {}\naccumulate = {}\nsync_batch_norm = {}\n",
                      recipe.global_batch, recipe.accumulate, recipe.synchronised);
  if (recipe.frozen) {
    text += "freeze = [";
    for (const std::string& name : family.frozen) text += fmt::format("'{}', ", name);
    text += fmt::format("]\nfreeze_statistics = {}\n", recipe.frozen_statistics);
  }
  if (recipe.mixup) text += "[data.augment]\nmixup = 0.4\n";
  return text + fmt::format("[parallel]\nfolded_ranks = {}\n", recipe.folded);
}

FamilyValues read(AnyContext& context, const ParameterStore& store) {
  FamilyValues values;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    values[name] = values_of(context, tensor);
  };
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    add(store.parameters()[i].name, store.value(i));
  }
  for (std::size_t i = 0; i < store.buffers().size(); ++i) {
    add(store.buffers()[i].name, store.buffer(i));
  }
  return values;
}

/// Of all ranks, in their order: what each process knows of those that it carries. Collective.
std::vector<std::vector<float>> statistics_of_ranks(Communicator& processes, AnyContext& context,
                                                    const ParameterStore& store) {
  const std::vector<float> own = values_of(context, store.buffers_of_ranks());
  std::vector<float> all(own.size() * static_cast<std::size_t>(processes.size()));
  processes.all_gather(Tensor(const_cast<float*>(own.data()), {std::ssize(own)}),
                       Tensor(all.data(), {std::ssize(all)}));
  std::vector<std::vector<float>> found;
  const std::ptrdiff_t of_one = std::ssize(own) / store.ranks();
  for (auto at = all.begin(); at != all.end(); at += of_one) found.emplace_back(at, at + of_one);
  return found;
}

/// The norm of a difference over the norm of what changed.
class RelativeDifference {
 public:
  void add(std::span<const float> before, std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const auto value = static_cast<double>(b[i]);
      squares_ += std::pow(static_cast<double>(a[i]) - value, 2);
      scale_ += std::pow(static_cast<double>(before[i]) - value, 2);
    }
  }
  double value() const { return squares_ == 0.0 ? 0.0 : std::sqrt(squares_ / scale_); }

 private:
  double squares_ = 0.0;
  double scale_ = 0.0;
};

}  // namespace

FamilyOutcome train_family(const Family& family, const Recipe& recipe, const ReplicaPlace& place,
                           int steps) {
  Communicator& ranks = place.hosts;
  const RunConfig config =
      read_run_config(ConfigTable::from_text(run_text(family, recipe), "run.toml"));
  const std::unique_ptr<Dataset> data = std::move(open_datasets(config.data).train);
  const Transform transform = make_transform(config.data, true);
  const DistributedSampler sampler({.size = data->size(),
                                    .global_batch = config.global_batch,
                                    .world = ranks.size(),
                                    .rank = ranks.rank(),
                                    .accumulate = config.accumulate,
                                    .folded = config.folded_ranks,
                                    .seed = config.seed});
  const Graph graph =
      load_model(find_model(config.model), {.classes = data->classes(),
                                            .channels = config.data.transform.channels,
                                            .size = config.data.transform.size,
                                            .dropout = config.dropout,
                                            .stochastic_depth = config.stochastic_depth});
  const bool raw = !is_host(place.context);
  DataLoader loader(*data, transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()),
                     .seed = config.seed,
                     .mix = config.data.mix,
                     .raw = raw,
                     .allocate = pinned_allocator(place.context),
                     .hold = raw ? DeviceInput::hold(config.accumulate) : 1});
  std::optional<RawInput> raw_input;
  if (raw) raw_input = RawInput{loader.raw_layout(), InputSpec(transform)};
  Replica replica(config, graph, sampler.micro_batch(), place.context, ranks, place.reduction,
                  raw_input);
  // By one rank: the others may share its memory.
  if (ranks.rank() == 0) shift_norms(place.context, replica.store(), family.shift);
  replica.broadcast_from_root();
  FamilyOutcome outcome;
  outcome.start = read(place.context, replica.store());
  outcome.statistics_before = values_of(place.context, replica.store().all_buffers());
  const auto note = [&outcome](const StepResult& done) {
    if (done.sums.samples == 0) return;  // a device is a step behind
    outcome.losses.push_back(done.sums.loss / static_cast<double>(done.sums.samples));
  };
  for (int step = 0; step < steps; ++step) {
    note(replica.step([&]() -> const Batch& { return *loader.next(); }, rate, false));
  }
  note(replica.settle());
  TANDEM_CHECK(outcome.losses.size() == static_cast<std::size_t>(steps), "{} losses of {} steps",
               outcome.losses.size(), steps);
  replica.check_bits();
  outcome.end = read(place.context, replica.store());
  outcome.statistics_of_ranks = statistics_of_ranks(ranks, place.context, replica.store());
  for (const ParameterSlice& slice : replica.bucketer().slices())
    outcome.reduced.insert(slice.name);
  return outcome;
}

double difference(const FamilyOutcome& a, const FamilyOutcome& b) {
  double largest = 0.0;
  // A comparison with NaN is false, whichever way.
  const auto add = [&largest](double found) {
    largest = std::isfinite(found) ? std::max(largest, found) : INFINITY;
  };
  for (std::size_t i = 0; i < b.losses.size(); ++i) {
    add(std::abs(a.losses.at(i) - b.losses[i]) / b.losses[i]);
  }
  RelativeDifference of_parameters;
  for (const auto& [name, values] : b.end) {
    if (name.find(".running_") != std::string::npos) continue;
    of_parameters.add(b.start.at(name), a.end.at(name), values);
  }
  add(of_parameters.value());
  const std::size_t ranks = std::max(a.statistics_of_ranks.size(), b.statistics_of_ranks.size());
  const auto of_rank = [&](const FamilyOutcome& each, std::size_t rank) -> const auto& {
    const std::size_t count = each.statistics_of_ranks.size();
    TANDEM_CHECK(count == 1 || count == ranks, "statistics of {} ranks and of {}", count, ranks);
    return each.statistics_of_ranks[count == 1 ? 0 : rank];
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RelativeDifference of_statistics;
    of_statistics.add(b.statistics_before, of_rank(a, rank), of_rank(b, rank));
    add(of_statistics.value());
  }
  return largest;
}

}  // namespace tandem
