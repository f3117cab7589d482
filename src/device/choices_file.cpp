#include "device/choices_file.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <system_error>

#include "device/kernel_choices.h"

namespace tandem {
namespace {

std::string library_versions(std::size_t cudnn, std::size_t cublas) {
  return fmt::format("sm-cudnn{}-cublas{}", cudnn, cublas);
}

/// The number between the two in `name`; 0 where it is named otherwise.
int number_between(std::string_view name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after)) return 0;
  if (name.size() < before.size() + after.size()) return 0;
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  int number = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  return code == std::errc() && end == name.data() + name.size() ? number : 0;
}

}  // namespace

std::string choices_kind(std::string_view device, int multiprocessors, std::size_t cudnn,
                         std::size_t cublas) {
  return fmt::format("{}-{}{}", device, multiprocessors, library_versions(cudnn, cublas));
}

std::filesystem::path choices_file(std::string_view kind) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  return folder / file_name_of(fmt::format("kernels-{}.txt", kind));
}

std::filesystem::path lending_choices_file(std::string_view device, int multiprocessors,
                                           std::size_t cudnn, std::size_t cublas) {
  const std::string before = file_name_of(fmt::format("kernels-{}-", device));
  const std::string after = library_versions(cudnn, cublas) + ".txt";
  std::filesystem::path lending;
  int most = multiprocessors;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(cache_folder(), code), end; !code && entry != end;
       entry.increment(code)) {
    const int number = number_between(entry->path().filename().string(), before, after);
    if (number <= most) continue;
    most = number;
    lending = entry->path();
  }
  return lending;
}

}  // namespace tandem
