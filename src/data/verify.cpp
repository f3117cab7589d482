#include "data/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/median.h"

namespace tandem {
namespace {

/// What looking at one sample found.
struct Finding {
  std::uint64_t hash = 0;
  int height = 0;  ///< 0: could not be read
  int width = 0;
  std::string reason;
};

Finding look_at(const Dataset& dataset, std::int64_t index) {
  Finding finding;
  try {
    const Image image = dataset.load(index);
    finding.height = image.height;
    finding.width = image.width;
    const auto extents =
        (static_cast<std::uint64_t>(image.height) << 32) | static_cast<std::uint64_t>(image.width);
    finding.hash = mix64(hash_bytes(image.pixels.data(), image.pixels.size()) ^ mix64(extents));
  } catch (const InputError& error) {
    finding.reason = error.what();
  }
  return finding;
}

/// Sets a counter to its end as it goes.
struct Ending {
  std::atomic<std::int64_t>& next;
  std::int64_t end;
  ~Ending() { next = end; }
};

/// Findings of the training samples, then of the test samples. Where anything fails the threads
/// look at no more.
std::vector<Finding> look_at_all(const Datasets& datasets, int threads,
                                 const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t train = datasets.train->size();
  const std::int64_t total = train + datasets.test->size();
  std::vector<Finding> findings(static_cast<std::size_t>(total));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
  std::atomic<int> working{threads};
  std::vector<std::jthread> workers;
  workers.reserve(errors.size());
  const Ending ending{next, total};  // before they are waited for
  for (std::exception_ptr& error : errors) {
    workers.emplace_back([&] {
      try {
        for (std::int64_t i = next++; i < total; i = next++) {
          findings[static_cast<std::size_t>(i)] =
              i < train ? look_at(*datasets.train, i) : look_at(*datasets.test, i - train);
          ++done;
        }
      } catch (...) {
        error = std::current_exception();
        next = total;
      }
      --working;
    });
  }
  while (working > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    progress(done, total);
  }
  workers.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return findings;
}

ExtentRange range_of(const std::vector<int>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::ranges::minmax(values);
  const double middle = median({values.begin(), values.end()});
  return {least, static_cast<int>(std::lround(middle)), most};
}

PartReport summarize(const Dataset& dataset, std::vector<Finding>::const_iterator finding) {
  PartReport report;
  report.samples = dataset.size();
  report.per_class.resize(static_cast<std::size_t>(dataset.classes()));
  report.least_label = dataset.classes();
  report.most_label = -1;
  std::vector<int> heights;
  std::vector<int> widths;
  for (std::int64_t i = 0; i < dataset.size(); ++i, ++finding) {
    const int label = dataset.label(i);
    ++report.per_class.at(static_cast<std::size_t>(label));
    report.least_label = std::min(report.least_label, label);
    report.most_label = std::max(report.most_label, label);
    if (finding->height == 0) {
      report.unreadable.push_back({i, finding->reason});
      continue;
    }
    heights.push_back(finding->height);
    widths.push_back(finding->width);
  }
  report.height = range_of(heights);
  report.width = range_of(widths);
  return report;
}

std::vector<Duplicates> find_duplicates(const Datasets& datasets,
                                        const std::vector<Finding>& findings) {
  std::map<std::uint64_t, std::vector<std::int64_t>> by_hash;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].height > 0) by_hash[findings[i].hash].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& [hash, members] : by_hash) {
    if (members.size() > 1) groups.push_back(std::move(members));
  }
  std::sort(groups.begin(), groups.end());
  const std::int64_t train = datasets.train->size();
  std::vector<Duplicates> result;
  for (const auto& members : groups) {
    Duplicates found;
    std::int32_t first_label = -1;
    for (const std::int64_t i : members) {
      const Dataset& dataset = i < train ? *datasets.train : *datasets.test;
      const std::int64_t index = i < train ? i : i - train;
      (i < train ? found.train : found.test).push_back(dataset.describe(index));
      if (first_label < 0) first_label = dataset.label(index);
      found.labels_differ |= dataset.label(index) != first_label;
    }
    result.push_back(std::move(found));
  }
  return result;
}

}  // namespace

std::int64_t DataReport::across_parts() const {
  return std::count_if(duplicates.begin(), duplicates.end(), [](const Duplicates& group) {
    return !group.train.empty() && !group.test.empty();
  });
}

DataReport verify_datasets(const Datasets& datasets, int threads,
                           const std::function<void(std::int64_t, std::int64_t)>& progress) {
  TANDEM_CHECK(threads >= 1, "{} threads", threads);
  const std::vector<Finding> findings = look_at_all(datasets, threads, progress);
  return {.class_names = datasets.train->class_names(),
          .train = summarize(*datasets.train, findings.begin()),
          .test = summarize(*datasets.test, findings.begin() + datasets.train->size()),
          .duplicates = find_duplicates(datasets, findings)};
}

}  // namespace tandem
