#pragma once

namespace tandem {

/// Begins to count the calls of operator new in all threads, from zero.
void count_allocations();
/// Ends that; returns how many there were.
long counted_allocations();

/// How many there are while `work` runs. A program that uses this has allocations.cpp among its
/// sources, which replaces the operators.
template <typename Work>
long allocations_of(const Work& work) {
  count_allocations();
  work();
  return counted_allocations();
}

}  // namespace tandem
