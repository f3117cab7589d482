#pragma once

#include <string>

namespace tandem {

/// Whether a host as --hosts names it is this one: "localhost", this host's name up to the first
/// dot of both, in whatever letters' case, or, of a dotted IPv4 address, one that an interface of
/// this host has or that is looped back. Names are not looked up, since that may take long where
/// nobody answers.
bool is_this_host(const std::string& host);

/// The same, but of a name whose domain is not this host's own: that may be another host's.
bool is_certainly_this_host(const std::string& host);

}  // namespace tandem
