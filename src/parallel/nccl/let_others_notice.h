#pragma once

#include <chrono>
#include <thread>

namespace tandem {

/// Of a rank that waited too long: the others' patience ends at about the same time.
constexpr std::chrono::milliseconds notice_of_timeout{500};
/// Of a rank that met an error, as that another has ended, which all hear of. With the patience for
/// last words behind it (base/last_words.h) less than the second that mpirun leaves.
constexpr std::chrono::milliseconds notice_of_error{200};

/// To be called before NCCL, or the ranks of a GPU of several, are given up. What is given up ends
/// by sending what it has, which may end the operation on the next rank too, with a wrong sum: so
/// this waits for a moment, in which the others, that mostly meet the same, notice too.
inline void let_others_notice(std::chrono::milliseconds moment) {
  std::this_thread::sleep_for(moment);
}

}  // namespace tandem
