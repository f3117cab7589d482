#pragma once

#include <string>

namespace tandem {

/// Whether a host as --hosts names it is this one: "localhost", this host's name (up to the first
/// dot where one of both has no domain), or, of a dotted IPv4 address, one that an interface of
/// this host has or that is looped back. Names are not looked up, since that may take long where
/// nobody answers.
bool is_this_host(const std::string& host);

}  // namespace tandem
