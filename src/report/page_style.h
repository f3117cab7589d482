#pragma once

#include <string_view>

namespace tandem {

/// The report's style sheet. Colours are apart for colour-blind people and in grey, and have at
/// least three times the background's contrast, in the light and in the dark scheme.
extern const std::string_view page_style;

/// The report's script.
extern const std::string_view page_script;

}  // namespace tandem
