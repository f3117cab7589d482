#include "device/tune_setting.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"

namespace tandem {

std::string_view tune_setting() {
  constexpr std::array<std::string_view, 4> settings{"", "off", "own", "borrow"};
  const char* value = std::getenv("TANDEM_TUNE");
  const std::string_view setting = value == nullptr ? std::string_view() : value;
  if (std::ranges::find(settings, setting) == settings.end()) {
    input_error(
        "TANDEM_TUNE='{}' says nothing of kernels; set it to off, own or borrow, or unset it",
        setting);
  }
  return setting;
}

}  // namespace tandem
