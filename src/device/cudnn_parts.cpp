#include "device/cudnn_parts.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <filesystem>
#include <memory>

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, Closer>;

Library load(const std::string& file) {
  return Library(::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL));
}

/// Where a library was loaded from; empty where that cannot be told.
fs::path folder_of(const Library& library) {
  link_map* map = nullptr;
  if (::dlinfo(library.get(), RTLD_DI_LINKMAP, &map) != 0) return {};
  return fs::path(map->l_name).parent_path();
}

std::string find_missing_part() {
  const Library cudnn = load("libcudnn.so.9");
  if (!cudnn) return {};
  const fs::path folder = folder_of(cudnn);
  for (const char* part :
       {"graph", "ops", "heuristic", "engines_precompiled", "engines_runtime_compiled"}) {
    const std::string file = fmt::format("libcudnn_{}.so.9", part);
    if (load(file)) continue;
    const char* trouble = ::dlerror();
    std::string reason = trouble == nullptr ? file : trouble;
    // A path in front: there is one that is broken. Else there is none where this program looks,
    // but cuDNN looks beside itself too.
    if (!reason.starts_with(file) || !load((folder / file).string())) return reason;
  }
  return {};
}

}  // namespace

const std::string& missing_cudnn_part() {
  static const std::string missing = find_missing_part();
  return missing;
}

}  // namespace tandem
