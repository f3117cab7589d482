#pragma once

#include <string>

#include "base/error.h"
#include "base/last_words.h"

namespace tandem {

/// Reading data stands still: a disk or a network does not answer. The thread that reads waits
/// still, so that what is taken down may wait for it; the message is left as last words
/// (base/last_words.h).
class DataTimeout : public SystemError {
 public:
  explicit DataTimeout(const std::string& message) : SystemError(message) {
    leave_last_words(what());
  }
};

}  // namespace tandem
