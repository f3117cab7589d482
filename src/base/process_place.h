#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem {

/// Where this process is in its work, for the message of a failure: what of it is known; the step
/// is that of own_report(). "rank 3 on node-a, GPU-0a1b..., step 12"; of a training run that
/// prepares its first step, "step 0".
std::string process_place();
/// The same from its parts, which may be empty, or 0; `rank` -1: unknown.
std::string place_text(int rank, const std::string& device, std::int64_t step);
/// That of several ranks: `ranks` names them ("ranks 1 and 2"), and the steps that they are at lie
/// between two: "ranks 1 and 2 on node-a, GPU-0a1b..., steps 12 to 13".
std::string place_text(const std::string& ranks, const std::string& device, std::int64_t first_step,
                       std::int64_t last_step);

/// "step 12: ", of the step of own_report(), for the start of a failure's message; empty where no
/// step has begun.
std::string at_step();
/// leave_last_words() (base/last_words.h) behind at_step(), unless the words begin with a step
/// already: whoever would add it may not be reached. Without where there is no memory for that.
void leave_last_words_of_step(const std::string& words,
                              std::chrono::milliseconds grace = std::chrono::seconds(2)) noexcept;

/// The UUID of the GPU that this process computes on.
void set_process_device(const std::string& device);

}  // namespace tandem
