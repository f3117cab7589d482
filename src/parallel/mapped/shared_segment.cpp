#include "parallel/mapped/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shared_memory.h"
#include "base/text.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

constexpr const char* way_out = "or set parallel.reduction = \"flat\"";

std::string reason(int error) { return std::generic_category().message(error); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The name of a segment, for as long as it has one.
class SegmentName {
 public:
  SegmentName() = default;
  explicit SegmentName(std::string text) : text_(std::move(text)) {}
  ~SegmentName() {
    if (!text_.empty()) unlink(text_.c_str());
  }
  SegmentName(SegmentName&& other) noexcept : text_(std::exchange(other.text_, {})) {}
  SegmentName& operator=(SegmentName&& other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string random_name() {
  const char* folder = std::getenv(shared_memory_folder_variable);
  if (folder == nullptr || access(folder, W_OK | X_OK) != 0) folder = "/dev/shm";
  std::random_device random;
  return fmt::format("{}/tandem-{}-{:08x}{:08x}", folder, getpid(), random(), random());
}

FileDescriptor open_shared(const std::string& name, int flags) {
  return FileDescriptor(
      open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, S_IRUSR | S_IWUSR));
}

std::size_t bytes_of(const SegmentSize& size, std::int64_t count) {
  return size.fixed + static_cast<std::size_t>(count) * size.each;
}

/// Throws Error with what a person can do about it.
SegmentName create_segment(const SegmentSize& size, const std::string& host, int ranks) {
  const std::string name = random_name();
  const FileDescriptor file = open_shared(name, O_CREAT | O_EXCL);
  if (file.get() < 0) {
    input_error("{} gives no shared memory ({}); mount /dev/shm there, {}", host, reason(errno),
                way_out);
  }
  SegmentName segment(name);
  const auto reserve = [&](std::int64_t count) {
    const std::size_t bytes = bytes_of(size, count);
    // Of a fixed size it is small, or its maker has looked.
    return size.most == 0 || fits_beside_others(bytes) ? reserve_memory(file.get(), bytes) : ENOSPC;
  };
  std::int64_t count = size.most;
  int error = reserve(count);
  while (error == ENOSPC && count > size.least) {
    count = std::max(count / 2, size.least);
    error = reserve(count);
  }
  if (error != 0) {
    input_error(
        "/dev/shm of {} has no room for the {} that its {} ranks share ({}); give it more (docker "
        "run --shm-size), {}",
        host, format_bytes(bytes_of(size, count)), ranks, reason(error), way_out);
  }
  return segment;
}

}  // namespace

SharedSegment::SharedSegment(Communicator& world, const RankTopology& topology,
                             const SegmentSize& size) {
  const std::vector<int>& neighbours = topology.ranks_on_host(topology.host_of(world.rank()));
  const int maker = neighbours.front();
  const std::string& host = topology.host_name(topology.host_of(world.rank()));
  std::string error;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (const InputError& failure) {
      error = failure.what();
    }
  };
  SegmentName segment;
  if (world.rank() == maker) {
    attempt([&] { segment = create_segment(size, host, static_cast<int>(neighbours.size())); });
  }
  const std::vector<std::string> names = all_gather_text(world, segment.text());
  const std::string& name = names[static_cast<std::size_t>(maker)];
  if (!name.empty()) {
    attempt([&] {
      const FileDescriptor file = open_shared(name, 0);
      struct stat status {};
      if (file.get() < 0 || fstat(file.get(), &status) != 0) {
        input_error(
            "rank {} on {} cannot open the memory that rank {} shares ({}); let them see one "
            "/dev/shm (docker run --ipc=host), {}",
            world.rank(), host, maker, reason(errno), way_out);
      }
      bytes_ = static_cast<std::size_t>(status.st_size);
      void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
      if (mapped == MAP_FAILED) {
        input_error("rank {} on {} cannot map {} of shared memory ({}); free some, {}",
                    world.rank(), host, format_bytes(static_cast<std::uint64_t>(status.st_size)),
                    reason(errno), way_out);
      }
      data_ = static_cast<std::byte*>(mapped);
    });
  }
  // Nobody needs the name any more once all have answered.
  for (const std::string& other : all_gather_text(world, error)) {
    if (other.empty()) continue;
    unmap();
    input_error("{}", other);
  }
  count_ = static_cast<std::int64_t>((bytes_ - size.fixed) / size.each);
}

SharedSegment::~SharedSegment() { unmap(); }

void SharedSegment::unmap() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
}

}  // namespace tandem
