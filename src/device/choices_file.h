#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

/// The kind (KernelChoices::kind()) of choices for a device, by its name and multiprocessors, and
/// for these versions of the libraries: other devices, other shares of one and other versions have
/// other kernels that are fastest.
std::string choices_kind(std::string_view device, int multiprocessors, std::size_t cudnn,
                         std::size_t cublas);

/// The file in cache_folder() that choices of this kind go to; empty where there is no such folder.
std::filesystem::path choices_file(std::string_view kind);

/// Of such files those of the same device and libraries with more multiprocessors: the one with the
/// most, so of the whole device where its choices are kept. Empty where there is none.
std::filesystem::path lending_choices_file(std::string_view device, int multiprocessors,
                                           std::size_t cudnn, std::size_t cublas);

}  // namespace tandem
