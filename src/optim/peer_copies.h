#pragma once

namespace tandem {

/// A device's parameters as the other devices keep them, at addresses that this one's kernels write
/// to, laid out as its own arenas are.
struct PeerCopies {
  static constexpr int most = 15;

  int count = 0;
  float* parameters[most] = {};
  void* weights[most] = {};  ///< UpdateSettings::weights of each; null where there are none
};

}  // namespace tandem
