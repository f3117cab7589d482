#include "train/bad_samples.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "parallel/gather_text.h"

namespace tandem {

BadSamples::BadSamples(std::filesystem::path file, Communicator& communicator)
    : file_(std::move(file)), communicator_(communicator) {
  if (communicator.rank() != 0) return;
  std::ifstream stream(file_);
  for (std::string line; std::getline(stream, line);) known_.insert(line);
}

void BadSamples::add(const std::vector<BadSample>& samples) {
  for (const BadSample& sample : samples) pending_ += sample.reason + '\n';
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
  const std::size_t before = known_.size();
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) known_.insert(line);
  }
  counts.distinct = static_cast<std::int64_t>(known_.size());
  if (known_.size() > before) {
    AtomicFile file(file_);
    for (const std::string& line : known_) file.write(line + '\n');
    file.commit();
  }
  return counts;
}

}  // namespace tandem
