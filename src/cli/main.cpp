#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/process_place.h"
#include "cli/commands.h"
#include "cli/usage_error.h"

namespace tandem {
namespace {

constexpr const char* description =
    "Tandem trains image classifiers on one or many ranks.\n"
    "Alone, or under an MPI launcher: mpirun -n 2 --bind-to none tandem train "
    "examples/fashion_mnist/"
    "quickstart.toml";
constexpr const char* footer =
    "Exit codes: 0 done; 1 an error of the program or the machine; 2 an error in the config, the "
    "data or the command line; 75 stopped by SIGINT, SIGTERM or SIGUSR1, a checkpoint was "
    "written, go on with --resume.";

/// How long a rank other than 0 waits before it says what went wrong, each a little longer than the
/// one before: mostly a lower rank has met the same error, and its one line is enough. Never so
/// long that the ranks which wait for this one would take it for hung and say so first.
std::chrono::duration<double> silence_before_error(int rank, double timeout_seconds) {
  constexpr int turns = 30;
  const double most = timeout_seconds > 0.0 ? timeout_seconds / 2.0 : 3600.0;
  const double first = std::min(2.7, 0.75 * most);
  const double turn = std::min(0.3, (most - first) / turns);
  return std::chrono::duration<double>(first + turn * std::min(rank, turns));
}

/// Says what went wrong and ends the whole job. Of another rank's fault, which may be rank 0's, the
/// ranks have settled before who tells it.
int fail(const MpiSession* session, const std::exception& error, int code) {
  const auto* ended = dynamic_cast<const RankEnded*>(&error);
  const bool settled =
      ended != nullptr || dynamic_cast<const CommunicationTimeout*>(&error) != nullptr;
  if (process_rank() > 0 && !settled) {
    const double timeout = session == nullptr ? 0.0 : session->timeout_seconds();
    std::this_thread::sleep_for(silence_before_error(process_rank(), timeout));
  }
  // What several ranks could have met says whose it is.
  const bool whose =
      code == ExitCode::failure && !settled && session != nullptr && session->distributed();
  const bool reported = ended != nullptr && ended->reported();
  if (!reported)
    log_error("{}{}", error.what(), whose ? fmt::format(" ({})", process_place()) : "");
  close_log_file();
  // mpirun is about to end the job, with fewer words of its own than about a rank that aborts.
  constexpr std::chrono::seconds launchers_turn(4);
  if (ended != nullptr) std::this_thread::sleep_for(launchers_turn);
  if (session != nullptr) session->abort(code);
  return code;
}

/// Commands that start ranks, or become one, and are none themselves: MPI is not to be touched.
bool starts_ranks(int argc, char** argv) {
  constexpr std::array names{"launch", "launch-rank", "mps-guard"};
  return argc > 1 && std::ranges::find(names, std::string_view(argv[1])) != names.end();
}

int run(int argc, char** argv) {
  // A write beyond a limit on file sizes then fails as on a full disk, instead of ending the
  // program.
  if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) log_warning("cannot ignore SIGXFSZ");
  // Where it is ignored, as some parents leave it, no child can be waited for.
  if (std::signal(SIGCHLD, SIG_DFL) == SIG_ERR) log_warning("cannot take notice of children");
  std::unique_ptr<MpiSession> session;
  try {
    session = starts_ranks(argc, argv) ? std::make_unique<MpiSession>()
                                       : std::make_unique<MpiSession>(argc, argv);
    CLI::App app(description, "tandem");
    app.footer(footer);
    app.set_version_flag("--version", TANDEM_VERSION);
    app.require_subcommand(1);
    Command chosen;
    add_train_command(app, chosen);
    add_eval_command(app, chosen);
    add_bench_command(app, chosen);
    add_tune_command(app, chosen);
    add_weights_command(app, chosen);
    add_models_command(app, chosen);
    add_data_command(app, chosen);
    add_report_command(app, chosen);
    add_doctor_command(app, chosen);
    add_launch_command(app, chosen);
    add_launch_rank_command(app, chosen);
    add_mps_guard_command(app, chosen);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      // --help and --version come here too, with code 0.
      const bool mistake = error.get_exit_code() != 0;
      if (process_rank() <= 0 && mistake) log_error("{}", usage_error_text(app, error));
      if (process_rank() <= 0 && !mistake) app.exit(error, std::cout, std::cerr);
      return mistake ? ExitCode::bad_input : 0;
    }
    const int code = chosen(*session);
    std::cout.flush();
    if (!std::cout) system_error("the standard output cannot be written");
    close_log_file();
    return code;
  } catch (const InputError& error) {
    return fail(session.get(), error, ExitCode::bad_input);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(session.get(),
                InputError(fmt::format("{}: {}", error.path1().string(), error.code().message())),
                ExitCode::bad_input);
  } catch (const std::bad_alloc&) {
    return fail(session.get(), SystemError("out of memory; use a smaller batch, model or data set"),
                ExitCode::failure);
  } catch (const std::exception& error) {
    return fail(session.get(), error, ExitCode::failure);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::run(argc, argv); }
