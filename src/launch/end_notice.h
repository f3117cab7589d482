#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launch/watcher_list.h"

namespace tandem {

struct EndNotice;

/// Where a job's launcher learns of the ranks of its own host, of those that watch them and with
/// which code they end: a socket that only this host's processes reach, and only this user's are
/// heard. It has no name in any file system, so that nothing is left of it however the launcher
/// ends.
class EndNotices {
 public:
  /// Without a socket, where there can be none, nobody is heard.
  explicit EndNotices(const std::string& job);
  ~EndNotices();
  EndNotices(const EndNotices&) = delete;
  EndNotices& operator=(const EndNotices&) = delete;

  /// Takes what has come, for a moment at most: any user of this host can send more, for ever.
  void take();

  /// Takes all that has come, once the job has ended, of however many processes; for a second at
  /// most.
  void take_rest();

  /// The exit code of the ranks that have failed, of what was taken: 2 (bad input) where one of
  /// them ended with that, else the first one's; 0 where none has failed.
  int failure() const { return failure_; }

  /// Whether a rank has stopped as it was asked to (75), of what was taken. Ranks leave MPI
  /// together, so that the others have too, and the checkpoint is written.
  bool stopped() const { return stopped_; }

  /// Whether anything can be heard.
  bool listens() const { return socket_ >= 0; }

  /// Whether a rank has begun, or what was to start it has told of an error.
  bool begun() const { return told_ || !watchers_.empty(); }

  /// Whether a line of an error has been written, by a rank, or by what starts and watches it.
  bool told() const;

  /// The first that have ended without a word, where no rank had failed or stopped before: what
  /// comes later may be the end that mpirun makes of the others.
  const std::vector<LostWatcher>& lost() const { return lost_; }

  /// Whether all watchers were asked to end, the first before any rank had ended, as where somebody
  /// ends mpirun.
  bool ended_from_outside() const {
    return asked_first_ && asked_ >= watchers_.begun() && lost_.empty();
  }

 private:
  enum class Taken { nothing, others, own };

  void take_all(bool is_rest);
  /// Whether nothing is left.
  bool take_waiting(bool is_rest);
  Taken take_one();
  void count(const EndNotice& notice, pid_t sender);
  void count_code(int code);
  void keep_board(int descriptor);
  /// With what the boards say of their ranks.
  std::vector<LostWatcher> with_places(std::vector<LostWatcher> lost) const;

  int socket_;
  int failure_ = 0;
  bool stopped_ = false;
  bool told_ = false;
  bool any_ended_ = false;
  bool asked_first_ = false;
  std::size_t asked_ = 0;  // watchers, to end
  WatcherList watchers_;
  std::vector<LostWatcher> lost_;
  std::vector<int> boards_;  // files of RankBoards, which begin with the HostClaims of ranks
};

/// Tells the job's launcher that this process watches a rank from here on, which is -1 where it is
/// unknown; `claims`: the file of its RankBoard. On other hosts than the launcher's nobody hears
/// it.
void notify_begin(const std::string& job, int rank, int claims);

/// A way to tell it from a signal handler that this process was asked to end: what kills it later
/// then ends the job, and is no loss of this one.
class AskedToEndNotice {
 public:
  explicit AskedToEndNotice(const std::string& job);
  ~AskedToEndNotice();
  AskedToEndNotice(const AskedToEndNotice&) = delete;
  AskedToEndNotice& operator=(const AskedToEndNotice&) = delete;

  /// -1: nobody listens.
  int socket() const { return socket_; }
  /// Safe in a signal handler; waits for a second at most.
  static void send(int socket);

 private:
  int socket_;
};

/// Tells it with which exit code (0 to 255) a rank ends; so do the others.
void notify_end(const std::string& job, int code);

/// The same once this process ends by exit(), behind the error that it has to tell until then.
void notify_end_at_exit(const std::string& job, int code);

}  // namespace tandem
