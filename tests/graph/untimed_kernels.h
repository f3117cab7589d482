#pragma once

#include <cstdlib>
#include <optional>

#include "support/scoped_variable.h"

namespace tandem {

/// While it lives no kernel of a GPU is timed: the libraries' own first choices do, and are the
/// same for all plans. What the environment says of it holds.
class UntimedKernels {
 public:
  UntimedKernels() {
    if (std::getenv("TANDEM_TUNE") == nullptr) tune_.emplace("TANDEM_TUNE", "off");
  }

 private:
  std::optional<ScopedVariable> tune_;
};

}  // namespace tandem
