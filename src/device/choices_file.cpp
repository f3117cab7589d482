#include "device/choices_file.h"

#include <fmt/format.h>

#include "device/kernel_choices.h"

namespace tandem {

std::string choices_kind(std::string_view device, int multiprocessors, std::size_t cudnn,
                         std::size_t cublas) {
  return fmt::format("{}-{}sm-cudnn{}-cublas{}", device, multiprocessors, cudnn, cublas);
}

std::filesystem::path choices_file(std::string_view kind) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  return folder / file_name_of(fmt::format("kernels-{}.txt", kind));
}

}  // namespace tandem
