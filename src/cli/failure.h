#pragma once

#include "parallel/mpi/mpi_session.h"

namespace tandem {

// How a process ends whose command failed. Which error has which exit code, which rank tells it and
// when, and who ends the job, is decided here alone.

/// From here on an error that no process survives (base/last_words.h) ends this one too where it
/// does not reach main(). Until main_is_reached() the session must live.
void end_where_main_is_not_reached(const MpiSession& session);

/// main() has the end of the process in hand. May be called again.
void main_is_reached();

/// main_is_reached() with the command's work done. Where last words have been left on the way, as
/// by what was taken down, they are this process's end, and this does not return.
void work_is_done();

/// To be called in main() with the exception that is being handled: says what went wrong, and ends
/// the whole job. Of another rank's fault, which may be rank 0's, the ranks have settled before who
/// tells it. Returns the exit code where there is no other process to end; `session` may be null.
int end_failed(const MpiSession* session);

/// The exit code of the exception that is being handled.
int failure_code();

}  // namespace tandem
