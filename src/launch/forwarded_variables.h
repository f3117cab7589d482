#pragma once

#include <span>
#include <string>
#include <vector>

namespace tandem {

/// Names of the variables, of "NAME=value" texts, that ranks of all hosts are to have as the
/// launcher has them, which mpirun gives to ranks of its own host alone: those that Tandem reads
/// (TANDEM_...) and NCCL (NCCL_...), CUDA_DEVICE_ORDER, and where the user's own MPS daemons are
/// used, CUDA_MPS_PIPE_DIRECTORY. Each once, in order.
std::vector<std::string> forwarded_variables(std::span<const std::string> environment,
                                             bool reuses_mps);

/// This process's environment, as forwarded_variables() takes it.
std::vector<std::string> environment_texts();

}  // namespace tandem
