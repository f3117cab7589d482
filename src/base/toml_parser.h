#pragma once

// toml++, for .cpp files only. Version 3.3 asserts, and in release builds lets the compiler assume,
// what a broken file violates ("[=a]"): then it aborts, or its behaviour is undefined. Without the
// assertion it finds the same a few lines later and reports an error. NDEBUG chooses between the
// two.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
