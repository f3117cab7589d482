#pragma once

#include <csignal>

namespace tandem {

/// Blocks all signals in the calling thread while it lives, and so for good in threads that are
/// started meanwhile, as by a library: a signal to this process would otherwise be met, by its
/// default action, in one of those that know nothing of the handlers and masks here.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    // Fails for wrong arguments only, as does the other.
    static_cast<void>(::pthread_sigmask(SIG_SETMASK, &all, &before_));
  }
  ~BlockedSignals() { static_cast<void>(::pthread_sigmask(SIG_SETMASK, &before_, nullptr)); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace tandem
