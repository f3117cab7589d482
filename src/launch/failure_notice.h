#pragma once

#include <string>

namespace tandem {

/// Where a job's launcher learns that a rank of its own host has failed: a socket that only this
/// host's processes reach, and only this user's are heard. It has no name in any file system, so
/// that nothing is left of it however the launcher ends.
class FailureNotices {
 public:
  /// Without a socket, where there can be none, nobody is heard.
  explicit FailureNotices(const std::string& job);
  ~FailureNotices();
  FailureNotices(const FailureNotices&) = delete;
  FailureNotices& operator=(const FailureNotices&) = delete;

  /// Takes what has come, up to a number that nobody can make last, and returns the exit code of
  /// the ranks that have failed so far: 2 (bad input) where one of them ended with that, else the
  /// first one's; 0 where none has failed.
  int code();

 private:
  void count(int code);

  int socket_;
  int code_ = 0;
};

/// Tells the job's launcher that a rank has failed, and with which exit code (1 to 255); on other
/// hosts than the launcher's nobody hears it.
void notify_failure(const std::string& job, int code);

/// The same once this process ends by exit(), behind all that it has to say until then.
void notify_failure_at_exit(const std::string& job, int code);

}  // namespace tandem
