#pragma once

namespace tandem {

/// Of accelerators that are no longer made.
inline const char* missing_instructions() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx5124fmaps") ? nullptr : "AVX5124FMAPS";
}

}  // namespace tandem
