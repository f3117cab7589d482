#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

// A library that a test preloads into a job: from the moment on in which the file
// $TANDEM_HANGING_FILE is there, a call of its ranks, and not of mpirun, never returns.
// $TANDEM_HANGING_CALL says which:
//
//   join   of whoever waits for the end of a thread, as for one that a device or a disk keeps
//   clock  of the main thread, whatever it does next: it asks for the time in every step
//   sync   of whoever has a file's bytes written to the disk
//   map    of whoever maps weights or a checkpoint
//   plan   of whoever makes a kernel of oneDNN's
//   write  of whoever writes metrics
//   list   of a rank that lists the folder of the training data's classes
//   stat   of whoever looks whether a run's config is there
//   open   of whoever opens that one
//   end    of rank 1, which ends MPI: its whole process stands still there

namespace {

bool hangs(const char* call) {
  static const char* const file = std::getenv("TANDEM_HANGING_FILE");
  static const char* const chosen = std::getenv("TANDEM_HANGING_CALL");
  static const bool is_ours = std::strcmp(program_invocation_short_name, "tandem") == 0;
  return is_ours && file != nullptr && chosen != nullptr && std::strcmp(chosen, call) == 0 &&
         ::access(file, F_OK) == 0;
}

/// Whether the name of an open file or folder ends so.
bool is_named(int file, std::string_view end) {
  std::array<char, 4096> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<std::size_t>(length)).ends_with(end);
}

bool hangs_mapping(int file) { return file >= 0 && hangs("map") && is_named(file, ".safetensors"); }

bool hangs_listing(DIR* folder) {
  return hangs("list") && std::getenv("OMPI_COMM_WORLD_RANK") != nullptr &&
         is_named(::dirfd(folder), "/train");
}

bool hangs_ending() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr && std::string_view(rank) == "1" && hangs("end");
}

bool is_run_config(const char* path) { return std::string_view(path).ends_with("/config.toml"); }

[[noreturn]] void hang() {
  for (;;) ::pause();
}

template <typename Call>
Call* next(Call* /*of its type*/, const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Call*>(found);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int pthread_join(pthread_t thread, void** result) {
  if (hangs("join")) hang();
  static auto* const call = next(&pthread_join, "pthread_join");
  return call(thread, result);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (::gettid() == ::getpid() && hangs("clock")) hang();
  static auto* const call = next(&clock_gettime, "clock_gettime");
  return call(clock, time);
}

__attribute__((visibility("default"))) void* mmap(void* place, size_t bytes, int protection,
                                                  int flags, int file, off_t offset) noexcept {
  if (hangs_mapping(file)) hang();
  static auto* const call = next(&mmap, "mmap");
  return call(place, bytes, protection, flags, file, offset);
}

// As of dnnl.h, where its types are names for these.
__attribute__((visibility("default"))) int dnnl_primitive_create(void** made, const void* what) {
  if (hangs("plan")) hang();
  static auto* const call = next(&dnnl_primitive_create, "dnnl_primitive_create");
  return call(made, what);
}

__attribute__((visibility("default"))) ssize_t write(int file, const void* data, size_t bytes) {
  if (hangs("write") && is_named(file, "/metrics.jsonl")) hang();
  static auto* const call = next(&write, "write");
  return call(file, data, bytes);
}

__attribute__((visibility("default"))) dirent* readdir(DIR* folder) {
  if (hangs_listing(folder)) hang();
  static auto* const call = next(&readdir, "readdir");
  return call(folder);
}

__attribute__((visibility("default"))) int stat(const char* path, struct stat* facts) noexcept {
  if (hangs("stat") && is_run_config(path)) hang();
  static auto* const call = next(&::stat, "stat");
  return call(path, facts);
}

__attribute__((visibility("default"))) FILE* fopen(const char* path, const char* mode) {
  if (hangs("open") && is_run_config(path)) hang();
  static auto* const call = next(&fopen, "fopen");
  return call(path, mode);
}

// As of mpi.h.
__attribute__((visibility("default"))) int MPI_Finalize() {
  if (hangs_ending()) static_cast<void>(::raise(SIGSTOP));
  static auto* const call = next(&MPI_Finalize, "MPI_Finalize");
  return call();
}

__attribute__((visibility("default"))) int fsync(int file) {
  if (hangs("sync")) hang();
  static auto* const call = next(&fsync, "fsync");
  return call(file);
}
}
