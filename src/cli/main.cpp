#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/usage_error.h"
#include "parallel/placement/launched_job.h"

namespace tandem {
namespace {

constexpr const char* description =
    "Tandem trains image classifiers on one or many ranks.\n"
    "Alone, or under an MPI launcher: mpirun -n 2 --bind-to none tandem train "
    "examples/fashion_mnist/"
    "quickstart.toml";
constexpr const char* footer =
    "Exit codes: 0 done; 1 an error of the program or the machine; 2 an error in the config, the "
    "data or the command line, or a loss that is not finite; 75 stopped by SIGINT, SIGTERM or "
    "SIGUSR1, a checkpoint was written, go on with --resume; 128 + N ended by signal N.";

/// Commands that start ranks, or become one, and are none themselves: MPI is not to be touched. A
/// tuner that is one of several refuses as one, so that it is told once.
bool starts_ranks(int argc, char** argv) {
  constexpr std::array names{"launch", "launch-rank", "mps-guard"};
  if (argc < 2) return false;
  const std::string_view name = argv[1];
  if (name == "tune") return may_launch([](const char* variable) { return std::getenv(variable); });
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> words_behind_dashes(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  return {dashes == end ? end : dashes + 1, end};
}

/// Some parents close them, and the first files that are opened would be printed into.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      static_cast<void>(::open("/dev/null", O_RDWR));  // the lowest that is free
    }
  }
}

int run(int argc, char** argv) {
  open_standard_streams();
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
    add_launch_command(app, chosen, words_behind_dashes(argc, argv));
    add_launch_rank_command(app, chosen, words_behind_dashes(argc, argv));
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
    end_where_main_is_not_reached(*session);
    const int code = chosen(*session);
    work_is_done();
    std::cout.flush();
    if (!std::cout) system_error("the standard output cannot be written");
    close_log_file();
    return code;
  } catch (const std::exception&) {
    return end_failed(session.get());
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::run(argc, argv); }
