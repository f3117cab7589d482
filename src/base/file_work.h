#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/standstill.h"

namespace tandem {

// A disk or a network that does not answer keeps the thread that reads or writes for ever, and no
// call says so. What works on files therefore tells, here, which one it has in hand and that
// something of it came or went; another thread, which waits for it, sees where that stands still.

/// What one thread tells of its work on files.
class FileWork {
 public:
  /// While one lives file_in_hand() and file_moved() of the thread that made it are told to `work`.
  /// Nests: the one before is back when it ends.
  class Told {
   public:
    explicit Told(FileWork& work);
    ~Told();
    Told(const Told&) = delete;
    Told& operator=(const Told&) = delete;

   private:
    FileWork* before_;
  };

  /// Grows with whatever comes or goes. Any thread may ask.
  std::uint64_t moves() const { return moves_; }
  /// The file or folder that was taken in hand last; empty: none yet.
  std::string file() const;
  /// Seconds that what is under way may stand still for beyond what anything may: file_syncs().
  double allowance() const { return allowance_; }

 private:
  friend void file_in_hand(const std::filesystem::path& path);
  friend void file_moved();
  friend void file_syncs(std::uint64_t bytes);

  std::atomic<std::uint64_t> moves_{0};
  std::atomic<double> allowance_{0.0};
  mutable std::mutex mutex_;
  std::string file_;
};

/// The calling thread is about to open, list, write or remove this. Does nothing where nobody waits
/// for its work.
void file_in_hand(const std::filesystem::path& path);

/// Some of it has been read or written: a part that any disk has done in seconds, as 8 MiB.
void file_moved();

/// The calling thread is about to have so many bytes of its file made durable by one call, of whose
/// course nobody learns: network and user-space file systems may send all of them only then. Until
/// something moves again the file may stand still for a second more for every 16 MiB.
void file_syncs(std::uint64_t bytes);

/// A disk or a network stands still under a file that this process needs. The thread that is at it
/// never ends, so the message is left as last words (base/last_words.h) that are the end.
class FileTimeout : public SystemError {
 public:
  /// `last_words`: whether it leaves such.
  explicit FileTimeout(const std::string& message, bool last_words = true);
  /// Whether the words are the end of the process, since somebody speaks them.
  bool ends_process() const { return ends_process_; }

 private:
  bool ends_process_;
};

/// How long files may stand still, and what to say then.
struct FilePatience {
  double seconds = 0.0;          ///< in which nothing comes or goes; 0: for ever
  std::string_view key;          ///< what sets them, as a key of the config
  std::string_view advice = {};  ///< the end of the line
  /// Whether to end the process with last words; else FileTimeout is thrown, and `work`, which goes
  /// on by itself, owns what it uses.
  bool last_words = true;
};

/// Work on files on a thread of its own, whose end need not be waited for.
class FileTask {
 public:
  /// Begins. `work` owns what it uses where the task may be given up before its end.
  explicit FileTask(std::function<void()> work);

  bool done() const;
  /// Looks whether anything moves; of the time between looks that lie over a second apart a second
  /// counts. The work may take as long as it likes while it tells that something moves. Where
  /// nothing has for too long FileTimeout's last words end the process; where nobody speaks such,
  /// it is thrown, and whoever catches it must keep alive what `work` uses, and end the process
  /// soon.
  void look(const FilePatience& patience);
  /// Waits for the end, looks, and runs `meanwhile` over and over until then; what `work` throws is
  /// thrown here, as is what `meanwhile` throws, once the work is done (and left as last words, for
  /// it may never be done). Called once.
  void wait(const FilePatience& patience, const std::function<void()>& meanwhile);
  /// Waits, for so long at most, and leaves what `work` throws to wait().
  void wait_for(std::chrono::milliseconds longest) const { done_.wait_for(longest); }

 private:
  std::shared_ptr<FileWork> files_;
  std::future<void> done_;
  Standstill standstill_{Standstill::Clock::now(), Standstill::Seconds(1.0)};
  std::uint64_t moves_ = 0;  ///< at the last look
};

/// A FileTask that is waited for at once.
void await_file_work(const FilePatience& patience, const std::function<void()>& work,
                     const std::function<void()>& meanwhile);

}  // namespace tandem
