#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/folder_entries.h"
#include "base/text.h"
#include "graph/model_file.h"

namespace tandem {

namespace fs = std::filesystem;

fs::path model_zoo() {
  if (const char* chosen = std::getenv("TANDEM_MODELS"); chosen != nullptr && *chosen != '\0') {
    std::error_code code;
    if (fs::is_directory(chosen, code)) return chosen;
    input_error("TANDEM_MODELS={} is no folder; unset it or point it at one of *.toml models",
                chosen);
  }
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  for (const fs::path& candidate :
       {program.parent_path() / TANDEM_MODELS_FROM_PROGRAM, fs::path(TANDEM_SOURCE_MODELS)}) {
    if (fs::is_directory(candidate, code)) return fs::weakly_canonical(candidate);
  }
  input_error("no model zoo is found; set TANDEM_MODELS to the folder of *.toml models");
}

std::vector<std::string> zoo_models() {
  std::vector<std::string> names;
  const fs::path zoo = model_zoo();
  const FolderEntries entries = entries_of(zoo);
  if (entries.error)
    input_error("{}: cannot be listed ({})", zoo.string(), entries.error.message());
  for (const fs::path& path : entries.paths) {
    if (path.extension() == ".toml") names.push_back(path.stem().string());
  }
  if (names.empty()) input_error("no *.toml model in {}; set TANDEM_MODELS", zoo.string());
  std::ranges::sort(names);
  return names;
}

fs::path find_model(std::string_view name_or_path) {
  fs::path path(name_or_path);
  if (name_or_path.find('/') != std::string_view::npos || path.extension() == ".toml") return path;
  fs::path file = model_zoo() / (std::string(name_or_path) + ".toml");
  if (std::error_code code; !fs::is_regular_file(file, code)) {
    const std::vector<std::string> names = zoo_models();
    input_error("no model is called '{}'{}; the zoo has: {}; or give the path of a model file",
                name_or_path, did_you_mean(name_or_path, names), join(names, ", "));
  }
  return file;
}

}  // namespace tandem
