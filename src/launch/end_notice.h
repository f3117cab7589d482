#pragma once

#include <string>

namespace tandem {

/// Where a job's launcher learns that a rank of its own host has ended with another code than 0: a
/// socket that only this host's processes reach, and only this user's are heard. It has no name in
/// any file system, so that nothing is left of it however the launcher ends.
class EndNotices {
 public:
  /// Without a socket, where there can be none, nobody is heard.
  explicit EndNotices(const std::string& job);
  ~EndNotices();
  EndNotices(const EndNotices&) = delete;
  EndNotices& operator=(const EndNotices&) = delete;

  /// Takes what has come, up to a number that nobody can make last.
  void take();

  /// The exit code of the ranks that have failed, of what was taken: 2 (bad input) where one of
  /// them ended with that, else the first one's; 0 where none has failed.
  int failure() const { return failure_; }

  /// Whether a rank has stopped as it was asked to (75), of what was taken. Ranks leave MPI
  /// together, so that the others have too, and the checkpoint is written.
  bool stopped() const { return stopped_; }

 private:
  void count(int code);

  int socket_;
  int failure_ = 0;
  bool stopped_ = false;
};

/// Tells the job's launcher with which exit code (1 to 255) a rank ends; on other hosts than the
/// launcher's nobody hears it.
void notify_end(const std::string& job, int code);

/// The same once this process ends by exit(), behind all that it has to say until then.
void notify_end_at_exit(const std::string& job, int code);

}  // namespace tandem
