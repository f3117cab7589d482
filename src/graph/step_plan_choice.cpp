#include "graph/step_plan_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "device/device_error.h"
#include "device/kernel_choices.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "graph/step_key.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

/// What a way must gain on the one that is tried before it: as much as most steps differ from one
/// measurement to the next. Of those that differ by more, as ResNet-50 at 224 px by 1 %, either way
/// is as good.
constexpr double least_gain = 0.005;

/// How a step may be run.
struct StepWay {
  SideWork side_work = SideWork::by_size;
  NormDeferral norm_deferral = NormDeferral::by_size;

  bool operator==(const StepWay&) const = default;
};

/// As it is kept.
std::string name_of(const StepWay& way) {
  const auto word = [](auto value, auto by_size, const char* words, auto other,
                       const char* other_words) {
    return value == by_size ? words : value == other ? other_words : "as asked";
  };
  return fmt::format(
      "weight gradients {}, normalisations left {}",
      word(way.side_work, SideWork::by_size, "beside backward", SideWork::never, "in line"),
      word(way.norm_deferral, NormDeferral::by_size, "by size", NormDeferral::memory_only,
           "for memory only"));
}

/// Makes plans of one step, and the choice among them: by size at first, then one thing after the
/// other is changed, and stays so where the step is faster.
class StepChoice {
 public:
  StepChoice(const Graph& graph, ParameterStore& parameters, AnyContext& context,
             const StepPlanOptions& options, KernelChoices& choices)
      : graph_(graph),
        parameters_(parameters),
        context_(context),
        options_(options),
        choices_(choices),
        key_(step_key(graph, parameters, options)),
        changes_(changes_of(options)),
        first_{by_size_of(options)} {}

  std::unique_ptr<StepPlan> plan() {
    if (!choices_.find(key_)) {
      make(first_);
      if (std::ranges::none_of(changes_,
                               [&](const Change& each) { return each.applies(*plan_); })) {
        return std::move(plan_);
      }
      // Where one rank chooses for all, the others wait for it here. It measures on this thread, on
      // which layers may tell of its progress.
      choices_.make([] {});
      if (!choices_.find(key_) && choices_.lent(key_)) choices_.borrow(key_);
      if (!choices_.find(key_)) measure();
    }
    make_kept();
    return std::move(plan_);
  }

 private:
  /// Makes one thing of a way other than by size.
  struct Change {
    bool (*applies)(const StepPlan& by_size);
    void (*make)(StepWay& way);
  };

  /// Of what the options leave to timing.
  static std::vector<Change> changes_of(const StepPlanOptions& options) {
    std::vector<Change> changes;
    if (options.norm_deferral == NormDeferral::by_timing) {
      changes.push_back(
          {[](const StepPlan& plan) { return std::ranges::count(plan.deferred_norms(), true) > 0; },
           [](StepWay& way) { way.norm_deferral = NormDeferral::memory_only; }});
    }
    if (options.side_work == SideWork::by_timing) {
      changes.push_back({[](const StepPlan& plan) { return plan.side_layers() > 0; },
                         [](StepWay& way) { way.side_work = SideWork::never; }});
    }
    return changes;
  }
  static StepWay by_size_of(const StepPlanOptions& options) {
    StepWay way{options.side_work, options.norm_deferral};
    if (way.side_work == SideWork::by_timing) way.side_work = SideWork::by_size;
    if (way.norm_deferral == NormDeferral::by_timing) way.norm_deferral = NormDeferral::by_size;
    return way;
  }

  /// What was chosen before; by size where that is no way of this step.
  StepWay kept() const {
    const auto name = choices_.find(key_);
    const std::size_t sets = std::size_t{1} << changes_.size();
    for (std::size_t set = 0; set < sets; ++set) {
      StepWay way = first_;
      for (std::size_t i = 0; i < changes_.size(); ++i) {
        if ((set >> i & 1U) != 0) changes_[i].make(way);
      }
      if (name == name_of(way)) return way;
    }
    return first_;
  }

  void make(const StepWay& way) {
    if (plan_ && way == way_) return;
    const auto prepared = prepared_work(context_);  // the next plan's kernels want most of it
    plan_.reset();                                  // there may be memory for one alone
    way_ = way;
    options_.side_work = way.side_work;
    options_.norm_deferral = way.norm_deferral;
    plan_ = std::make_unique<StepPlan>(graph_, parameters_, context_, options_);
  }

  double time() {
    const double seconds = std::visit(
        [this](auto& device) {
          return time_step(device, graph_, context_, *plan_, options_.after_layer);
        },
        context_);
    log_debug("{}: {:.4f} ms with {}", key_, 1e3 * seconds, name_of(way_));
    return seconds;
  }

  /// Whether a step of the other way is faster. One that there is not the memory for is not: for
  /// its plan, or for what the device's driver and libraries take to run it.
  bool gains(const StepWay& now, const StepWay& other) {
    make(now);
    const double before = time();
    const auto facts = [this] { return std::pair(plan_->side_layers(), plan_->deferred_norms()); };
    const auto of_now = facts();
    try {
      make_in_room(other);
      return facts() != of_now && time() < (1.0 - least_gain) * before;
    } catch (const OutOfMemory& error) {
      give_up(other, error);
    } catch (const NoDeviceMemory& error) {
      give_up(other, error);
    }
    return false;
  }

  void give_up(const StepWay& way, const Error& error) {
    log_debug("{} is not timed with {}: {}", key_, name_of(way), error.what());
    memory_was_missing_ = true;
  }

  void measure() {
    HostTensor statistics(context_, parameters_.buffers_of_ranks());
    StepWay best = first_;
    try {
      make(first_);
      std::vector<Change> changes = changes_;
      std::erase_if(changes, [&](const Change& each) { return !each.applies(*plan_); });
      for (const Change& change : changes) {
        StepWay other = best;
        change.make(other);
        // The first way again for each: a device that gets warm gets slower.
        if (gains(best, other)) best = other;
      }
    } catch (const OutOfMemory& error) {
      give_up(best, error);
    } catch (const NoDeviceMemory& error) {
      give_up(best, error);
    }
    // Where it was, for this run and the ranks that wait for this one, which may share its device.
    memory_was_missing_ ? choices_.remember(key_, name_of(best))
                        : choices_.record(key_, name_of(best));
    statistics.write_back();
  }

  /// Throws OutOfMemory for a way other than by size, too, that leaves others less than is theirs,
  /// or less than what runs it takes.
  void make_in_room(const StepWay& way) {
    make(way);
    const std::size_t bytes = plan_->activation_bytes() + options_.reserve;
    if (way == first_ || !options_.room || bytes <= *options_.room) return;
    throw OutOfMemory(fmt::format("it takes {} bytes of {}", bytes, *options_.room), bytes);
  }

  /// As chosen. Where the memory is less than when it was, first with normalisations left by size,
  /// which may take less, then all by size.
  void make_kept() {
    const StepWay way = kept();
    StepWay smaller = way;
    smaller.norm_deferral = first_.norm_deferral;
    std::vector<StepWay> ways{way, smaller, first_};
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
    for (const StepWay& each : ways) {
      try {
        make_in_room(each);
        return;
      } catch (const OutOfMemory& error) {
        if (each == first_) throw;
        log_debug("{}: not with {}: {}", key_, name_of(each), error.what());
      }
    }
  }

  const Graph& graph_;
  ParameterStore& parameters_;
  AnyContext& context_;
  StepPlanOptions options_;
  KernelChoices& choices_;
  std::string key_;
  std::vector<Change> changes_;
  StepWay first_;
  StepWay way_{};
  bool memory_was_missing_ = false;
  std::unique_ptr<StepPlan> plan_;  // of that way
};

}  // namespace

std::unique_ptr<StepPlan> make_step_plan(const Graph& graph, ParameterStore& parameters,
                                         AnyContext& context, const StepPlanOptions& options) {
  KernelChoices* const choices = kernel_choices(context);
  const bool asked =
      options.side_work == SideWork::by_timing || options.norm_deferral == NormDeferral::by_timing;
  const bool by_timing = asked && options.training && options.rank_sum == nullptr &&
                         choices != nullptr &&
                         std::visit([](auto& device) { return times_steps(device); }, context);
  if (by_timing) return StepChoice(graph, parameters, context, options, *choices).plan();
  return std::make_unique<StepPlan>(graph, parameters, context, options);
}

bool times_steps(const CpuContext& /*device*/) { return false; }

double time_step(CpuContext& /*device*/, const Graph& /*graph*/, AnyContext& /*context*/,
                 StepPlan& /*plan*/, const std::function<void()>& /*between*/) {
  throw Error("steps on a CPU are not timed");
}

}  // namespace tandem
