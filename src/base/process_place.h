#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace tandem {

/// Where this process is in its work, for the message of a failure: what of it is known.
/// "rank 3 on node-a, GPU-0a1b..., step 12".
std::string process_place();
/// The same from its parts, which may be empty, or 0; `rank` -1: unknown.
std::string place_text(int rank, const std::string& device, std::int64_t step);
/// That of several ranks: `ranks` names them ("ranks 1 and 2"), and the steps that they are at lie
/// between two: "ranks 1 and 2 on node-a, GPU-0a1b..., steps 12 to 13".
std::string place_text(const std::string& ranks, const std::string& device, std::int64_t first_step,
                       std::int64_t last_step);

/// The UUID of the GPU that this process computes on.
void set_process_device(const std::string& device);
/// The training step that is under way, counted from 1. Costs a store to memory.
void set_process_step(std::int64_t step);
/// For how long other ranks wait for a sign of life of this process; 0: for ever.
void set_process_timeout(double seconds);

/// Whether the parent has a ChildReport of this process, and so tells how a signal ends it.
bool has_watching_parent();

/// Memory that a child started with variable() in its environment shares: what it says by
/// set_process_step() and set_process_timeout() stands here, also once it is dead.
class ChildReport {
 public:
  /// Throws SystemError where the system has no memory for it.
  ChildReport();
  ~ChildReport();
  ChildReport(const ChildReport&) = delete;
  ChildReport& operator=(const ChildReport&) = delete;

  /// Name and value. The child inherits a file descriptor with it.
  std::pair<std::string, std::string> variable() const;
  /// 0 before the first step.
  std::int64_t step() const;
  /// 0: for ever, or not said yet.
  double timeout_seconds() const;

 private:
  int descriptor_ = -1;
  void* memory_ = nullptr;
};

}  // namespace tandem
