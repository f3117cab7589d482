#include "parallel/nccl/nccl_group.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include "base/heartbeat.h"
#include "base/idle_wait.h"
#include "base/last_words.h"
#include "base/log.h"
#include "parallel/device_timeout.h"
#include "parallel/nccl/let_others_notice.h"
#include "parallel/nccl/nccl_check.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits up to `limit` for `done()`.
template <typename Done>
bool wait_for(const Done& done, std::chrono::seconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > end) return false;
    heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// The same on all ranks, made by rank 0.
ncclUniqueId share_id(Communicator& host) {
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  if (host.rank() == 0) check_nccl(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
  host.broadcast(Tensor(&id, {static_cast<std::int64_t>(sizeof(id))}, DType::u8), 0);
  return id;
}

}  // namespace

NcclGroup::NcclGroup(Communicator& host, const DeviceLinkOptions& options)
    : host_(host), exceptions_(std::uncaught_exceptions()) {
  const ncclUniqueId id = share_id(host);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (options.max_ctas > 0) config.maxCTAs = options.max_ctas;
  if (options.cga_cluster_size) config.cgaClusterSize = *options.cga_cluster_size;
  const ncclResult_t result =
      ncclCommInitRankConfig(comm_.get(), host.size(), id, host.rank(), &config);
  if (result == ncclSuccess) return;
  try {
    settle(result, "starting NCCL");
  } catch (const CommunicationTimeout& error) {
    if (!error.ranks().empty()) throw;
    throw nccl_start_timeout(error);
  }
}

NcclGroup::~NcclGroup() {
  if (std::uncaught_exceptions() > exceptions_) give_up();
  if (!aborted_) {
    finalize();
    return;
  }
  // NCCL waits for the graphs that hold its operations, and somebody may keep one.
  if (!wait_for([this] { return aborted_->load(); }, std::chrono::seconds(2))) {
    log_debug("NCCL has not ended; left behind");
  }
}

void NcclGroup::finalize() {
  try {
    const ncclResult_t result = ncclCommFinalize(comm());
    if (result != ncclInProgress) check_nccl(result, comm(), "ncclCommFinalize");
    if (!wait_for([this] { return !in_progress("ncclCommFinalize"); }, std::chrono::seconds(20))) {
      log_error("NCCL does not end: a CUDA graph still holds its operations, or a rank is gone");
      return;
    }
    check_nccl(ncclCommDestroy(comm()), nullptr, "ncclCommDestroy");
  } catch (const Error& error) {
    tell_at_the_end(error);
  }
}

bool NcclGroup::in_progress(const std::string& operation) {
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm(), &state), comm(), "ncclCommGetAsyncError");
  if (state == ncclInProgress) return true;
  check_nccl(state, comm(), operation);
  return false;
}

void NcclGroup::settle(ncclResult_t result, std::string_view operation, std::string_view label) {
  const std::string named = fmt::format("{}{}{}", operation, label.empty() ? "" : " of ", label);
  try {
    if (result != ncclInProgress) check_nccl(result, comm(), named);
    IdleWait idle(IdleWait::attentive_to_memory);
    host_.wait_until(
        [&] {
          if (!in_progress(named)) return true;
          idle.pause();
          return false;
        },
        [&] { return fmt::format("{} (NCCL)", named); });
  } catch (...) {
    const LastWordsHeld held;
    if (!given_up()) let_others_notice(notice_of_error);
    give_up();
    throw;
  }
}

void NcclGroup::check_alive() const { TANDEM_CHECK(!aborted_, "NCCL was given up after an error"); }

void NcclGroup::check(const std::function<std::string()>& what) {
  check_alive();
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm(), &state), comm(), "ncclCommGetAsyncError");
  if (state != ncclSuccess && state != ncclInProgress) check_nccl(state, comm(), what());
}

void NcclGroup::give_up() noexcept {
  if (aborted_ || comm() == nullptr) return;
  try {
    aborted_ = std::make_shared<std::atomic<bool>>(false);
    // On a thread of its own: NCCL tells the kernels at once, but then waits until the last CUDA
    // graph that holds its operations is destroyed, which is for the caller to do.
    std::thread([comm = comm_, aborted = aborted_] {
      if (const ncclResult_t result = ncclCommAbort(*comm); result != ncclSuccess) {
        log_debug("ncclCommAbort: {}", ncclGetErrorString(result));
      }
      aborted->store(true);
    }).detach();
  } catch (const std::exception& error) {
    log_error("NCCL cannot be ended: {}", error.what());
  }
}

}  // namespace tandem
