#include "parallel/shared_choices.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "parallel/announced_work.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

/// The choices of the ranks, by kind.
class ChoicesExchange {
 public:
  /// Collective.
  ChoicesExchange(Communicator& communicator, KernelChoices& choices)
      : communicator_(communicator), choices_(choices) {
    const std::vector<std::string> kinds = all_gather_text(communicator, choices.kind());
    for (int rank = 0; rank < communicator.size(); ++rank) {
      const auto& kind = kinds[static_cast<std::size_t>(rank)];
      const int first = static_cast<int>(std::ranges::find(kinds, kind) - kinds.begin());
      if (first == rank) leaders_.push_back(rank);
      if (rank == communicator.rank()) leader_ = first;
    }
  }

  bool leads() const { return leader_ == communicator_.rank(); }

  /// Collective: what each leader has to the others of its kind.
  void exchange() {
    for (const int leader : leaders_) {
      const bool mine = leader == communicator_.rank();
      const std::string text =
          broadcast_text(communicator_, mine ? choices_.text() : std::string(), leader);
      if (leader == leader_ && !mine) choices_.adopt(text);
    }
  }

 private:
  Communicator& communicator_;
  KernelChoices& choices_;
  std::vector<int> leaders_;  // the lowest rank of each kind
  int leader_ = 0;            // of this rank's kind
};

/// For its life, choices are made in another way than at once.
class ChoicesScope {
 public:
  ChoicesScope(KernelChoices& choices, KernelChoices::MakeChoice make) : choices_(choices) {
    choices.make_choices_by(std::move(make));
  }
  ~ChoicesScope() { choices_.make_choices_by({}); }
  ChoicesScope(const ChoicesScope&) = delete;
  ChoicesScope& operator=(const ChoicesScope&) = delete;

 private:
  KernelChoices& choices_;
};

}  // namespace

void choose_together(Communicator& communicator, KernelChoices* choices,
                     const std::function<void()>& make) {
  if (choices == nullptr) return make();
  if (communicator.size() == 1) {
    make();
    choices->flush();
    return;
  }
  ChoicesExchange exchange(communicator, *choices);
  exchange.exchange();  // from here on the ranks of a kind miss the same
  // The second exchange is one for every rank, the leader's when it has made everything, another's
  // as soon as it misses something.
  bool exchanged = false;
  const auto exchange_again = [&] {
    if (!std::exchange(exchanged, true)) exchange.exchange();
  };
  const ChoicesScope scope(*choices, [&](const std::function<void()>& work) {
    if (!exchange.leads()) exchange_again();
    run_announced(communicator, work);
  });
  make();
  choices->flush();  // so that ranks with the same file need not write what they adopt
  exchange_again();
}

}  // namespace tandem
