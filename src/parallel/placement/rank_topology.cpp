#include "parallel/placement/rank_topology.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/host_name.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

// No host name, boot id or UUID holds one.
constexpr char separator = '\n';

std::string pack(const RankPlace& place) {
  return place.host + separator + place.host_id + separator + place.device;
}

RankPlace unpack(const std::string& text) {
  const std::size_t first = text.find(separator);
  const std::size_t last = text.rfind(separator);
  TANDEM_CHECK(first != std::string::npos && first != last, "a rank's place does not read: {}",
               text);
  return {text.substr(0, first), text.substr(first + 1, last - first - 1), text.substr(last + 1)};
}

/// Numbers equal keys alike, in the order of their first appearance.
std::vector<std::vector<int>> group_by(const std::vector<std::string>& keys,
                                       std::vector<int>& group_of) {
  std::map<std::string, int> numbers;
  std::vector<std::vector<int>> groups;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    const auto [entry, added] = numbers.emplace(keys[rank], static_cast<int>(groups.size()));
    if (added) groups.emplace_back();
    groups[static_cast<std::size_t>(entry->second)].push_back(static_cast<int>(rank));
    group_of.push_back(entry->second);
  }
  return groups;
}

}  // namespace

std::string rank_count_text(int processes, int folded) {
  const int ranks = processes * folded;
  std::string text = fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  if (folded == 1) return text;
  return text + fmt::format(" folded into {} process{}", processes, processes == 1 ? "" : "es");
}

RankPlace this_place(std::string device) {
  RankPlace place{host_name(), host_name(), std::move(device)};
  // Absent outside Linux and in some sandboxes; the name has to do there.
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  if (std::getline(boot, boot_id)) place.host_id += " " + boot_id;
  return place;
}

RankTopology RankTopology::gather(Communicator& communicator, const RankPlace& mine) {
  std::vector<RankPlace> places;
  for (const std::string& text : all_gather_text(communicator, pack(mine))) {
    places.push_back(unpack(text));
  }
  return {std::move(places), communicator.rank()};
}

RankTopology::RankTopology(std::vector<RankPlace> places, int rank)
    : places_(std::move(places)), rank_(rank) {
  TANDEM_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  std::vector<std::string> host_keys;
  std::vector<std::string> device_keys;
  for (const RankPlace& place : places_) {
    host_keys.push_back(place.host_id);
    device_keys.push_back(place.host_id + separator + place.device);
  }
  hosts_ = group_by(host_keys, host_of_);
  devices_ = group_by(device_keys, device_of_);
}

int RankTopology::host_of(int rank) const { return host_of_.at(static_cast<std::size_t>(rank)); }

int RankTopology::device_of(int rank) const {
  return device_of_.at(static_cast<std::size_t>(rank));
}

const std::vector<int>& RankTopology::ranks_on_host(int host) const {
  return hosts_.at(static_cast<std::size_t>(host));
}

const std::vector<int>& RankTopology::ranks_on_device(int device) const {
  return devices_.at(static_cast<std::size_t>(device));
}

const std::string& RankTopology::device_name(int device) const {
  return places_.at(static_cast<std::size_t>(ranks_on_device(device).front())).device;
}

const std::string& RankTopology::host_name(int host) const {
  return places_.at(static_cast<std::size_t>(ranks_on_host(host).front())).host;
}

int RankTopology::local_size() const {
  return static_cast<int>(ranks_on_host(host_of(rank_)).size());
}

int RankTopology::colocated_size() const {
  return static_cast<int>(ranks_on_device(device_of(rank_)).size());
}

int RankTopology::position(int group, const Groups& groups) const {
  const std::vector<int>& ranks = groups.at(static_cast<std::size_t>(group));
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
}

std::string RankTopology::text(int folded) const {
  std::string text = fmt::format("{} on {} host{}:", rank_count_text(size(), folded), hosts(),
                                 hosts() == 1 ? "" : "s");
  for (int host = 0; host < hosts(); ++host) {
    const std::vector<int>& here = ranks_on_host(host);
    text += fmt::format("{} {} ({})", host == 0 ? "" : ",", host_name(host),
                        folded == 1 ? ranks_text(here) : processes_text(here));
  }
  return text;
}

std::string RankTopology::places_text(std::span<const int> ranks) const {
  std::string text;
  for (const int rank : ranks) {
    const RankPlace& place = places_.at(static_cast<std::size_t>(rank));
    text += fmt::format("{}rank {} on {}{}{}", text.empty() ? "" : "; ", rank, place.host,
                        place.device.empty() ? "" : ", ", place.device);
  }
  return text;
}

}  // namespace tandem
