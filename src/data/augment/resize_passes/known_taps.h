#pragma once

// For the files of resize_passes.h: as there, known to no linker.

#include <utility>

namespace tandem {
namespace {

/// Calls run<taps>() with a constant of the compiler's, which it has up to `most`; else returns
/// false.
template <int most, typename Run>
inline bool with_known_taps(int taps, const Run& run) {
  return [&]<int... before>(std::integer_sequence<int, before...>) {
    return ((taps == before + 1 && (run.template operator()<before + 1>(), true)) || ...);
  }
  (std::make_integer_sequence<int, most>{});
}

}  // namespace
}  // namespace tandem
