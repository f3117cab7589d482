#pragma once

#include <cstdint>

#include "parallel/communicator.h"
#include "parallel/mapped/members.h"
#include "parallel/slice_share.h"

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// The same place in the memory of each of these processes, by member, as this one maps it.
struct MemberMemory {
  const void* of[most_members] = {};
};

// Kernels of processes that reach each other's memory, on one GPU or several. Enqueued on a stream;
// sums of floats are added up in f32 in the order of the members.

/// result[i] = the sum over the members of arenas.of[m][i], for i in the share: f32, element 0 of
/// each arena and of `result` 16-byte aligned.
void sum_share(CUstream_st* stream, const MemberMemory& arenas, int members,
               const ArenaRange& share, float* result);

/// What combine() takes: the elements of tensors, and f64.
enum class CombinedType : std::uint8_t { f32, f64, f16, bf16, u8, i32, i64 };
CombinedType combined_type(DType dtype);
std::int64_t bytes_of(CombinedType type);

/// output[i] = inputs.of[0][i] combined with those of the other members, for i < count. The output
/// may be one of the inputs. Of one member it is a copy.
void combine(CUstream_st* stream, const MemberMemory& inputs, int members, CombinedType type,
             ReduceOp op, std::int64_t count, void* output);

}  // namespace tandem
