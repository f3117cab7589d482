#pragma once

#include <string>
#include <utility>

namespace tandem {

/// what() of the Exception that `action` throws, or "nothing was thrown". Other exceptions pass.
template <typename Exception, typename Action>
std::string message_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace tandem
