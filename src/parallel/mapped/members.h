#pragma once

namespace tandem {

/// Processes that reach each other's memory: more than MPS lets share a GPU, or one host has GPUs.
constexpr int most_members = 64;

}  // namespace tandem
