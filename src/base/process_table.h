#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What /proc tells of the processes of this host. Of another user's it tells less, and what ends
// meanwhile is left out.

/// All that are to be seen.
std::vector<pid_t> all_processes();

/// Those that run this very program and descend from `ancestor`: behind mpirun, its ranks here.
std::vector<pid_t> own_processes_below(pid_t ancestor);

/// Whether a signal, as SIGSTOP, or a debugger has stopped it.
bool is_stopped(pid_t process);

/// Whether it has ended, though its parent may not have noticed yet.
bool has_exited(pid_t process);

/// Whether a process that this one descends from is stopped, as by SIGTSTP: its launcher, say.
bool has_stopped_ancestor();

/// The NAME=VALUE words that it was started with; none of another user's.
std::vector<std::string> environment_of(pid_t process);

/// Whether it has a thread of that name, of at most 15 characters.
bool has_thread(pid_t process, std::string_view name);

/// Whether it sees this host: by the same name and with the same network. Containers that share
/// their processes need not.
bool is_on_this_host(pid_t process);

}  // namespace tandem
