#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Of the environment: a folder on /dev/shm to make files of shared memory in, where it can be
/// written to, instead of /dev/shm itself. Who sets it removes the folder, and so also a file whose
/// process was killed while it still had a name.
inline constexpr const char* shared_memory_folder_variable = "TANDEM_SHARED_MEMORY_FOLDER";

/// Takes the memory of a shared file now: what is taken when it is first written ends the process
/// where there is no more (SIGBUS). Returns 0 or an errno.
int reserve_memory(int descriptor, std::size_t bytes);

/// Whether /dev/shm has room for so many bytes, an eighth of it left: MPI and other programs, too,
/// keep files there, and are ended (SIGBUS) where one that they made cannot grow.
bool fits_beside_others(std::size_t bytes);
/// The same of `total` bytes, 0: without a limit, of which so many are free.
bool fits_beside_others(std::size_t bytes, std::uint64_t total, std::uint64_t free);

}  // namespace tandem
