#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/run_config.h"

namespace tandem {

/// Runs what a rank reads before it meets the others. A disk that does not answer is told, by
/// FileTimeout, before those lose their patience: TANDEM_START_SECONDS.
void await_rank_files(const std::function<void()>& read);

/// For as long as a rank may read before it meets the others.
double rank_files_seconds();

/// The same for who can do without: where the disk does not answer for `seconds` FileTimeout is
/// thrown, and the process goes on. `read` may be at it until the process ends, so it owns what it
/// uses.
void try_files(double seconds, const std::function<void()>& read);

/// The config of a command that ranks run: `file` with `overrides` ("train.epochs=10"). Throws as
/// await_rank_files() and read_run_config() do.
RunConfig read_rank_config(const std::filesystem::path& file,
                           const std::vector<std::string>& overrides);

}  // namespace tandem
