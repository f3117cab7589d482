// Whether this processor can run the program, before anything of it that only some can: this file
// alone is compiled for all of them.

#include <unistd.h>

#include <cstdio>

#include "cli/needed_instructions.h"

namespace tandem {
namespace {

/// Before the constructors of global objects.
[[gnu::constructor(101)]] void check_processor() {
  const char* missing = missing_instructions();
  if (missing == nullptr) return;
  char line[256];
  const int length = std::snprintf(
      line, sizeof line,
      "error: tandem was compiled for processors with %s, which this one lacks: build it with "
      "-DTANDEM_NATIVE=OFF (docs/install.md)\n",
      missing);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  _exit(1);
}

}  // namespace
}  // namespace tandem
