#include "launch/rank_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/folder_entries.h"
#include "base/host_tag.h"
#include "base/log.h"
#include "base/process_place.h"
#include "base/process_report.h"
#include "base/process_table.h"
#include "base/shared_memory.h"
#include "base/text.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// POSIX shared memory's folder.
constexpr const char* shared_memory = "/dev/shm";

std::string name_start(const std::string& job) {
  return fmt::format("{}-{}-", report_file_start, job);
}

/// The same for all that one mpirun, or its helper on this host, started; hosts that share /dev/shm
/// differ in their name or in that process.
std::string board_name(const std::string& job) {
  return fmt::format("/{}{}-{}", name_start(job), host_tag(), ::getppid());
}

/// A lock of the open file, which the system takes back when its process ends.
class FileLock {
 public:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {
    int code = 0;
    while ((code = ::flock(descriptor_, LOCK_EX)) != 0 && errno == EINTR) {
    }
    TANDEM_CHECK(code == 0, "the ranks' shared memory cannot be locked");
  }
  ~FileLock() { static_cast<void>(::flock(descriptor_, LOCK_UN)); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

/// -1, with errno, where it cannot be had. The same by all watchers: the file is there, and zeroed,
/// for whoever comes first.
int open_shared(const std::string& name, std::size_t bytes) {
  const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return -1;
  const int error = reserve_memory(descriptor, bytes);
  if (error == 0) return descriptor;
  static_cast<void>(::close(descriptor));
  static_cast<void>(::shm_unlink(name.c_str()));
  errno = error;
  return -1;
}

/// The lock by which a board is somebody's: of the open file as well, but another kind than
/// FileLock's, so that the two do not meet.
bool take_hold(int descriptor, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

/// Whether it is a file of this user's in which nothing has been made for a minute: a younger one
/// may not be held yet.
bool is_old_board(const fs::path& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         facts.st_uid == ::geteuid() && std::time(nullptr) - facts.st_mtime > 60;
}

/// This watcher's alone where there is no memory to share: it then speaks of its own rank.
int open_own(std::size_t bytes) {
  const int descriptor = ::memfd_create(report_file_start.data(), MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    system_error("no memory for what becomes of a rank: {}", std::strerror(errno));
  }
  return descriptor;
}

std::string group_text(const std::vector<SignalledRank>& group, const std::string& what) {
  const int signal = group.front().signal;
  return fmt::format("{} {} {} by signal {} ({})", ranks_place(group),
                     group.size() == 1 ? "was" : "were", what, signal, strsignal(signal));
}

}  // namespace

std::string ranks_place(const std::vector<SignalledRank>& group) {
  std::vector<int> ranks;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = ProcessReport::before_first_step;
  for (const SignalledRank& each : group) {
    if (each.rank >= 0) ranks.push_back(each.rank);
    first = std::min(first, each.step);
    last = std::max(last, each.step);
  }
  return place_text(ranks.empty() ? "" : ranks_text(ranks), group.front().device, first, last);
}

std::string signalled_text(const std::vector<SignalledRank>& ranks, const std::string& what) {
  std::vector<std::vector<SignalledRank>> groups;
  for (const SignalledRank& each : ranks) {
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return group.front().device == each.device && group.front().signal == each.signal;
    });
    if (same != groups.end()) {
      same->push_back(each);
    } else {
      groups.push_back({each});
    }
  }
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const auto& group : groups) texts.push_back(group_text(group, what));
  return join(texts, "; ");
}

std::string waiting_text(const std::vector<WaitingRank>& ranks) {
  if (ranks.empty()) return {};
  const std::string& operation = ranks.front().operation;
  std::vector<int> same;
  for (const WaitingRank& each : ranks) {
    if (each.rank >= 0 && each.operation == operation) same.push_back(each.rank);
  }
  return fmt::format(", while {} waited in {}", same.empty() ? "others" : ranks_text(same),
                     operation);
}

/// Written by its watcher alone, the state last, but for the report, which is its rank's.
struct RankBoard::Entry {
  std::atomic<RankState> state;
  std::atomic<pid_t> process;  // 0: unknown
  std::int32_t rank;
  std::int32_t signal;
  ProcessReport report;
  std::array<char, 96> device;
};

/// Zeroed where nobody has come yet; the entries follow. Begins with what report_variable() wants.
struct alignas(ProcessReport) RankBoard::Memory {
  HostClaims claims;
  std::atomic<std::int32_t> users;
  std::atomic<std::int32_t> told;
};

std::size_t RankBoard::bytes() const { return sizeof(Memory) + count_ * sizeof(Entry); }

RankBoard::Entry& RankBoard::entry(std::size_t place) const {
  static_assert(std::atomic<RankState>::is_always_lock_free &&
                std::atomic<std::int32_t>::is_always_lock_free);
  static_assert(sizeof(Memory) % alignof(Entry) == 0);
  auto* const entries = reinterpret_cast<Entry*>(static_cast<std::byte*>(memory_) + sizeof(Memory));
  return entries[place];
}

RankBoard::RankBoard(const WatchPlace& place, int rank)
    : name_(board_name(place.job)),
      place_(static_cast<std::size_t>(place.local_rank)),
      count_(static_cast<std::size_t>(place.local_size)) {
  TANDEM_CHECK(place_ < count_, "process {} of {} on this host", place_, count_);
  descriptor_ = open_shared(name_, bytes());
  if (descriptor_ < 0) {
    log_debug("no shared memory '/dev/shm{}': {}", name_, std::strerror(errno));
    descriptor_ = open_own(bytes());
  }
  childs_descriptor_ = ::open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_RDWR);
  // Nobody else asks for it but who removes what nobody holds.
  if (childs_descriptor_ >= 0) static_cast<void>(take_hold(childs_descriptor_, F_RDLCK));
  memory_ = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory_ == MAP_FAILED) system_error("no shared memory: {}", std::strerror(errno));
  Entry& own = entry(place_);
  own.rank = rank;
  place.device.copy(own.device.data(), own.device.size() - 1);
  set(RankState::runs);
  if (static_cast<Memory*>(memory_)->users.fetch_add(1) + 1 == place.local_size) {
    static_cast<void>(::shm_unlink(name_.c_str()));  // fails where one has ended already
  }
}

RankBoard::~RankBoard() {
  // Whoever has not come by now would be alone. Fails where all have: the name is gone.
  static_cast<void>(::shm_unlink(name_.c_str()));
  static_cast<void>(::munmap(memory_, bytes()));
  static_cast<void>(::close(descriptor_));
  if (childs_descriptor_ >= 0) static_cast<void>(::close(childs_descriptor_));
}

std::pair<std::string, std::string> RankBoard::report_variable() const {
  const auto* const report = reinterpret_cast<const std::byte*>(&entry(place_).report);
  return tandem::report_variable(
      childs_descriptor_,
      static_cast<std::size_t>(report - static_cast<const std::byte*>(memory_)));
}

ProcessReport& RankBoard::report() { return entry(place_).report; }

HostClaims& RankBoard::claims() { return static_cast<Memory*>(memory_)->claims; }

void RankBoard::set_process(pid_t process) { entry(place_).process = process; }

void RankBoard::set(RankState state, int signal) {
  Entry& own = entry(place_);
  own.signal = signal;
  own.state = state;
}

bool RankBoard::any(RankState state) const {
  for (std::size_t place = 0; place < count_; ++place) {
    if (entry(place).state == state) return true;
  }
  return false;
}

std::vector<WaitingRank> RankBoard::waiting() const {
  std::vector<WaitingRank> ranks;
  for (std::size_t place = 0; place < count_; ++place) {
    const Entry& each = entry(place);
    if (each.state != RankState::runs) continue;
    if (each.process != 0 && has_exited(each.process)) continue;
    if (std::string operation = each.report.wait(); !operation.empty()) {
      ranks.push_back({.rank = each.rank, .operation = std::move(operation)});
    }
  }
  return ranks;
}

std::vector<SignalledRank> RankBoard::ranks_in(RankState state) const {
  std::vector<SignalledRank> ranks;
  for (std::size_t place = 0; place < count_; ++place) {
    const Entry& each = entry(place);
    if (each.state != state) continue;
    ranks.push_back({.rank = each.rank,
                     .device = each.device.data(),
                     .step = each.report.step(),
                     .signal = each.signal});
  }
  return ranks;
}

void RankBoard::say_once(RankState state, const std::function<void()>& wait,
                         const std::function<void(const std::vector<SignalledRank>&)>& say) {
  // Where the one that speaks is killed meanwhile, the lock falls to the next one.
  const FileLock lock(descriptor_);
  std::atomic<std::int32_t>& told = static_cast<Memory*>(memory_)->told;
  if (told != 0) return;
  wait();
  say(ranks_in(state));
  told = 1;
}

std::optional<RankPlaceOnBoard> RankBoard::place_in_file(int descriptor, int rank) {
  if (rank < 0) return std::nullopt;  // unknown: any of them may be
  alignas(Entry) std::array<std::byte, sizeof(Entry)> bytes{};
  // Read, not mapped: another process may make the file shorter.
  for (auto at = static_cast<off_t>(sizeof(Memory));
       ::pread(descriptor, bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size());
       at += static_cast<off_t>(bytes.size())) {
    const auto& each = *reinterpret_cast<const Entry*>(bytes.data());
    if (each.state == RankState::unknown || each.rank != rank) continue;
    const std::string_view device(each.device.data(), each.device.size());
    return RankPlaceOnBoard{.device = std::string(device.substr(0, device.find('\0'))),
                            .step = each.report.step()};
  }
  return std::nullopt;
}

void remove_rank_boards(const std::string& job) {
  const std::string start = name_start(job);
  for (const fs::path& path : entries_of(shared_memory).paths) {
    std::error_code code;
    if (path.filename().string().starts_with(start)) fs::remove(path, code);
  }
}

void remove_abandoned_boards() {
  const std::string start = fmt::format("{}-", report_file_start);
  for (const fs::path& path : entries_of(shared_memory).paths) {
    if (!path.filename().string().starts_with(start) || !is_old_board(path)) continue;
    const int board = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (board < 0) continue;
    std::error_code code;
    if (take_hold(board, F_WRLCK)) fs::remove(path, code);
    static_cast<void>(::close(board));
  }
}

}  // namespace tandem
