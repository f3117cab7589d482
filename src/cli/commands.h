#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exit_code.h"
#include "parallel/mpi/mpi_session.h"

namespace tandem {

/// What a subcommand does once the command line is read: returns the exit code. Called with the
/// session of this process; commands that do not communicate ignore it.
using Command = std::function<int(const MpiSession& session)>;

/// A command that does not communicate: rank 0 alone runs it, the others do nothing.
template <typename Run>
Command on_root(Run run) {
  return [run = std::move(run)](const MpiSession& session) {
    return process_rank() > 0 ? 0 : run(session);
  };
}

/// Each adds its subcommand to `app`, which sets `chosen` when the command line names it.
void add_train_command(CLI::App& app, Command& chosen);
void add_eval_command(CLI::App& app, Command& chosen);
void add_bench_command(CLI::App& app, Command& chosen);
void add_weights_command(CLI::App& app, Command& chosen);
void add_models_command(CLI::App& app, Command& chosen);
void add_data_command(CLI::App& app, Command& chosen);
void add_report_command(CLI::App& app, Command& chosen);
void add_tune_command(CLI::App& app, Command& chosen);
void add_doctor_command(CLI::App& app, Command& chosen);
/// `behind_dashes`: the words of the command line behind its first "--".
void add_launch_command(CLI::App& app, Command& chosen,
                        const std::vector<std::string>& behind_dashes = {});
void add_launch_rank_command(CLI::App& app, Command& chosen,
                             const std::vector<std::string>& behind_dashes);
void add_mps_guard_command(CLI::App& app, Command& chosen);

}  // namespace tandem
