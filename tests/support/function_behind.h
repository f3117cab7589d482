#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

/// For code that takes the place of a library's function: that function, in the library behind.
/// Each source has one of its own: behind what is asked from the object in which this is, and with
/// external linkage a program's might answer for a library that was preloaded into it.
template <typename Function>
static Function* function_behind(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "there is no %s behind the one of this test\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}
