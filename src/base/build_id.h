#pragma once

#include <filesystem>
#include <string>

namespace tandem {

/// The build ID that the linker wrote into a program, in hexadecimal digits: a hash of its code and
/// data, which a build of the same sources in the same way has again. Default: of the program that
/// runs. Empty where it has none, or the file is no 64-bit ELF file.
std::string build_id(const std::filesystem::path& program = "/proc/self/exe");

}  // namespace tandem
