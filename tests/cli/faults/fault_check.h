#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>

#include "cli/program.h"

namespace tandem::cli {

/// Waits for the end of a job that has met a fault, which must come soon after now: within 30 s,
/// but for those of `limit`, of whose time most is to wait for time-outs: busy machines need the
/// rest.
Outcome end_after_fault(Program& program, double limit = 30.0);
/// Waits for the end of a job that meets its fault some time from now.
Outcome end_with_fault(Program& program, double limit);

/// The only line of standard error with "error: ", from there on; there must be no other.
std::string only_error(const Outcome& outcome);

/// This host's name, as messages have it.
std::string host_name();

/// Stops the process; returns once all of its threads stand still, which on a busy host takes its
/// time.
void hold(pid_t process);

/// Adds the files in /dev/shm that the process has mapped and that still have their names, as those
/// by which the MPI library's ranks of one host reach each other.
void add_shared_files(pid_t process, std::set<std::filesystem::path>& files);

/// Those of them that are still there.
std::set<std::filesystem::path> files_left(const std::set<std::filesystem::path>& files);

/// Expects that the rank's process is gone, or goes now, and left no shared memory.
void expect_gone(pid_t process);

}  // namespace tandem::cli
