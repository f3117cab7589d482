#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "data/data_loader.h"
#include "parallel/communicator.h"

namespace tandem {

/// The samples of a run that were skipped because they could not be read, over all ranks. Rank 0
/// lists each once in a text file, a line a sample, over resumed runs too.
class BadSamples {
 public:
  /// Touches nothing on disk. `file` is made when the first one comes.
  BadSamples(std::filesystem::path file, Communicator& communicator);

  /// For rank 0, before anything is gathered: of a run that goes on, reads the samples that it has
  /// listed before, where it `skips` such; of another, removes what an earlier run has left. Throws
  /// InputError where the file cannot be read, or removed.
  void begin(bool goes_on, bool skips);

  /// What this rank has skipped; kept until the next gather().
  void add(const std::vector<BadSample>& samples);

  struct Counts {
    std::int64_t skipped = 0;   ///< times a sample was skipped since the last gather(), all ranks
    std::int64_t distinct = 0;  ///< different ones since the run began
  };
  /// Collective. `distinct` counts on rank 0 alone.
  Counts gather();
  /// For rank 0: writes the file anew where what was gathered is not all in it. Throws SystemError
  /// where that fails.
  void write();

 private:
  void read();

  std::filesystem::path file_;
  Communicator& communicator_;
  std::set<std::string> known_;
  std::size_t written_ = 0;  ///< of them, in the file
  std::string pending_;      ///< lines
  std::int64_t pending_count_ = 0;
};

}  // namespace tandem
