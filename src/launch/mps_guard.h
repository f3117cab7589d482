#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

/// Starts the guard of a host's private MPS daemons: a process of its own, with neither terminal
/// nor parent, which outlives this one and runs guard_mps(). `folder` is there, and joined.
void start_mps_guard(const std::filesystem::path& folder, const std::vector<std::string>& daemons);

/// For a deserted folder: ends the daemons in it and removes it.
void clean_up_job(const std::filesystem::path& folder);

/// What the guard does: it starts one MPS daemon for each CUDA_VISIBLE_DEVICES in `daemons`, tells
/// the job's processes in the folder, waits until all of them are gone, however they ended, and
/// ends the daemons and removes the folder. Nothing that ends the job ends the guard: it takes no
/// SIGINT, SIGTERM or SIGHUP. Returns the exit code.
int guard_mps(const std::filesystem::path& folder, const std::vector<std::string>& daemons);

}  // namespace tandem
