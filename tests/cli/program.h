#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"

namespace tandem::cli {

/// The exit code of a run that a signal stopped, with a checkpoint written.
inline constexpr int stopped = 75;

/// How a command ended.
struct Outcome {
  int code = 0;  ///< exit code; 128 + signal where a signal ended it
  std::string out;
  std::string err;  ///< on a pseudo-terminal, where both go together: empty
  double seconds = 0.0;
  bool timed_out = false;
};

/// What to start, and where.
struct Launch {
  std::vector<std::string> command;
  std::filesystem::path folder;  ///< working directory; empty: the test's
  std::vector<std::pair<std::string, std::string>> environment{};
  bool terminal = false;               ///< all three streams are a pseudo-terminal of 100 columns
  double timeout = 240.0;              ///< seconds from start to end
  std::vector<int> ignored_signals{};  ///< as nohup leaves SIGHUP; other stop signals are default
};

/// A running command; ended with the object.
class Program {
 public:
  explicit Program(Launch launch);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t id() const { return id_; }
  /// The process of an MPI rank that this mpirun, or the mpirun of this `tandem launch`, started;
  /// waits until it is there.
  pid_t rank_process(int rank) const;
  void signal(int number) const;
  static void signal(pid_t process, int number);

  /// Types at the command's terminal: "\x03" is Ctrl-C. For Launch::terminal.
  void type(const std::string& keys) const;
  /// Takes the terminal away from the command, as a window that is closed or a lost connection
  /// does.
  void close_terminal();

  /// Whether it has not ended; wait() then still tells how.
  bool running() const;
  /// What it has written to standard error so far.
  std::string err() const;
  /// What it has written to its terminal so far. For Launch::terminal.
  const std::string& screen();
  /// Returns once the command has ended, or has been ended after its time-out.
  Outcome wait();

 private:
  void start();
  void prepare_child() const;
  bool ended(int& status);
  void drain_terminal();

  Launch launch_;
  TemporaryFolder streams_;
  pid_t id_ = -1;
  int terminal_ = -1;
  double started_ = 0.0;
  std::string screen_;
};

/// Starts and waits.
Outcome run(Launch launch);

/// The built program with these arguments.
std::vector<std::string> tandem(const std::vector<std::string>& arguments);
/// The same on `ranks` ranks under mpirun.
std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& arguments);
/// tandem() for one rank, mpirun() for more.
std::vector<std::string> on_ranks(int ranks, const std::vector<std::string>& arguments);

/// Waits until `condition` holds; throws after `seconds`, which ends the test: what follows would
/// find nothing that it could look at.
void wait_until(const std::string& what, double seconds, const std::function<bool()>& condition);

/// How often `part` occurs in `text`.
std::size_t occurrences(const std::string& text, const std::string& part);

/// A file's whole text; empty where there is none, and of /proc where the process ends meanwhile.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace tandem::cli
