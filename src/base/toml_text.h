#pragma once

#include <string>
#include <string_view>

#include "base/toml_parser.h"

// TOML's text in and out, for .cpp files only (base/toml_parser.h).

namespace tandem {

/// `origin` stands for the file name in messages. Throws InputError that names it with the line
/// where the text is not TOML.
toml::table parse_toml(std::string_view text, std::string_view origin);

/// Text that parse_toml() takes for the same table.
std::string toml_text(const toml::table& table);

/// A string as TOML has it, with quotes. What is not UTF-8 becomes something else.
std::string quoted_toml(std::string_view text);

/// Sets a dotted key, known to be one, to a value in TOML's text; tables between are made as
/// needed. `root` stays as it was where parse_toml() throws.
void set_toml(toml::table& root, std::string_view key, std::string_view value,
              std::string_view origin);

/// Removes a dotted key, known to be one, where it is there. Throws InputError where it is a table.
void erase_toml(toml::table& root, std::string_view key, std::string_view origin);

}  // namespace tandem
