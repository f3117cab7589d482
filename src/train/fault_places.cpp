#include "train/fault_places.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/last_words.h"
#include "data/data_timeout.h"
#include "device/device_error.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

/// Where the ranks are, or, where there are none to name, who says so.
std::string blamed(const RankTopology& places, std::vector<int> ranks) {
  if (!ranks.empty()) return places.places_text(ranks);
  ranks.push_back(places.rank());
  return "seen by " + places.places_text(ranks);
}

/// The driver does not tell the clients of an MPS server whose fault it was.
std::string sharers_of_a_fault(const RankTopology& places) {
  const std::vector<int>& here = places.ranks_on_device(places.device_of(places.rank()));
  return here.size() == 1
             ? std::string()
             : fmt::format(", which under MPS may be a fault of any of {}", ranks_text(here));
}

std::string way_on(const char* sign, const FaultNotes& notes) {
  const std::string text = notes.way_on ? notes.way_on() : std::string();
  return text.empty() ? text : sign + text;
}

}  // namespace

void rethrow_with_places(const RankTopology& places, const std::function<FaultNotes()>& notes) {
  const LastWordsHeld held;
  try {
    throw;
  } catch (const CommunicationTimeout& error) {
    const FaultNotes now = notes();
    throw CommunicationTimeout(
        now.at + error.waited(),
        fmt::format("{} ({}); look at the hosts, or raise parallel.timeout_seconds{}",
                    error.reason(), blamed(places, error.ranks()), way_on(", and ", now)),
        error.ranks());
  } catch (const RankEnded& error) {
    const FaultNotes now = notes();
    throw RankEnded(now.at + error.what() + way_on(", and ", now));
  } catch (const DataTimeout& error) {
    const FaultNotes now = notes();
    const std::array here{places.rank()};
    // The run's folder may lie on the disk that hangs: nobody looks there for a checkpoint.
    throw DataTimeout(fmt::format("{}{} ({}){}", now.at, error.what(), places.places_text(here),
                                  now.way_on ? "; go on with --resume once it answers" : ""));
  } catch (const DeviceError& error) {
    throw DeviceError(error.what() + sharers_of_a_fault(places) + way_on("; ", notes()));
  }
}

}  // namespace tandem
