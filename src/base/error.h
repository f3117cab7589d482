#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tandem {

/// The rank that messages of this process carry. -1 until a communicator is made, which prints no
/// rank. It labels messages only: no computation may depend on it.
void set_process_rank(int rank);
int process_rank();

/// A broken invariant or a failed call: something that a developer mends. what() holds the message,
/// the failed expression, the file, the line and the rank.
class Error : public std::runtime_error {
 public:
  /// The place is that of the caller. (std::source_location says the same, but clang 14 has none.)
  explicit Error(std::string_view message, std::string_view expression = {},
                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

 protected:
  struct Verbatim {};
  Error(Verbatim, const std::string& message) : std::runtime_error(message) {}
};

/// Something that the user mends: a config, a data file, an argument. what() is one line that says
/// what is wrong, where (file and line, key, or sample path) and what to do.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(Verbatim{}, message) {}
};

/// The machine failed under a running program: a full disk, a broken device, no more memory. what()
/// is one line, with the path and the system's reason.
class SystemError : public Error {
 public:
  explicit SystemError(const std::string& message) : Error(Verbatim{}, message) {}
};

/// Whether the system refused for want of what has nothing to do with the file that was asked for:
/// memory, or open files.
bool is_shortage(const std::error_code& code);

/// Throws `what` ("cannot open 'x'") with the system's reason: SystemError where is_shortage(),
/// else InputError.
[[noreturn]] void file_error(std::string_view what, const std::error_code& code);

/// Throws InputError with a formatted message.
template <typename... Args>
[[noreturn]] void input_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

/// What `work` returns; its InputError gets the place of the setting that it is about,
/// "run.toml:7: train.global_batch".
template <typename Work>
decltype(auto) with_place(std::string_view place, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const InputError& error) {
    input_error("{}: {}", place, error.what());
  }
}

/// Throws SystemError with a formatted message.
template <typename... Args>
[[noreturn]] void system_error(fmt::format_string<Args...> format, Args&&... args) {
  throw SystemError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tandem

/// Throws tandem::Error with a formatted message unless `condition` holds. Always evaluated once.
#define TANDEM_CHECK(condition, ...)                               \
  do {                                                             \
    if (!(condition)) {                                            \
      throw ::tandem::Error(fmt::format(__VA_ARGS__), #condition); \
    }                                                              \
  } while (false)
