#pragma once

#include <cstddef>
#include <string_view>

namespace tandem {

/// Where a TOML text first has a byte above 127 outside of strings and comments, which TOML 1.0
/// forbids (a byte order mark at the start aside), or behind a backslash; npos where it has none.
/// toml++ 3.3 must not see such bytes: its tables of characters run into places that the compiler
/// takes for unreachable.
std::size_t find_foreign_byte(std::string_view toml);

}  // namespace tandem
