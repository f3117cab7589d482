#include "train/bad_samples.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_work.h"
#include "base/text.h"
#include "parallel/gather_text.h"

namespace tandem {

BadSamples::BadSamples(std::filesystem::path file, Communicator& communicator)
    : file_(std::move(file)), communicator_(communicator) {}

void BadSamples::begin(bool goes_on, bool skips) {
  if (goes_on && !skips) return;
  file_in_hand(file_);
  std::error_code code;
  if (!std::filesystem::exists(file_, code)) return;
  if (goes_on) {
    read();
  } else if (!std::filesystem::remove(file_, code) && code) {
    input_error("cannot remove '{}', which an earlier run has left: {}; choose another --out",
                file_.string(), code.message());
  }
}

void BadSamples::read() {
  std::ifstream stream(file_);
  for (std::string line; std::getline(stream, line);) known_.insert(line);
  if (!stream.is_open() || stream.bad()) {
    input_error(
        "cannot read '{}', which lists the bad samples so far; make it readable, or remove it",
        file_.string());
  }
  written_ = known_.size();
}

void BadSamples::add(const std::vector<BadSample>& samples) {
  for (const BadSample& sample : samples) pending_ += one_line(sample.reason) + '\n';
  pending_count_ += static_cast<std::int64_t>(samples.size());
}

BadSamples::Counts BadSamples::gather() {
  Counts counts;
  for (const std::int64_t count : all_gather_values(communicator_, {&pending_count_, 1})) {
    counts.skipped += count;
  }
  if (counts.skipped == 0) return {0, static_cast<std::int64_t>(known_.size())};
  const std::vector<std::string> texts = all_gather_text(communicator_, pending_);
  pending_.clear();
  pending_count_ = 0;
  if (communicator_.rank() != 0) return counts;
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) known_.insert(line);
  }
  counts.distinct = static_cast<std::int64_t>(known_.size());
  return counts;
}

void BadSamples::write() {
  if (known_.size() == written_) return;
  AtomicFile file(file_);
  for (const std::string& line : known_) file.write(line + '\n');
  file.commit();
  written_ = known_.size();
}

}  // namespace tandem
