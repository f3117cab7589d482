#pragma once

#include <string>
#include <string_view>

namespace tandem {

/// `text` for use in HTML, in elements and in quoted attributes: & < > " ' become entities, bytes
/// that are no printable UTF-8 text become U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace tandem
