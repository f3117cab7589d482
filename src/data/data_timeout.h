#pragma once

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/process_place.h"

namespace tandem {

/// Reading data stands still: a disk or a network does not answer. The thread that reads waits on,
/// and what is taken down waits for it, so the message is left as last words (base/last_words.h)
/// that are the end, with the step (with_step()).
class DataTimeout : public SystemError {
 public:
  explicit DataTimeout(const std::string& message) : SystemError(message) {
    leave_last_words_of_step(what(), std::chrono::milliseconds(0));
  }
};

}  // namespace tandem
