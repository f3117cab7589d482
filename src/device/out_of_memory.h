#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace tandem {

/// A context has not the memory that was asked for; what() names the sizes.
class OutOfMemory : public InputError {
 public:
  OutOfMemory(const std::string& message, std::size_t bytes) : InputError(message), bytes_(bytes) {}

  /// That were asked for.
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
};

}  // namespace tandem
