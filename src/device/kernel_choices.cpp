#include "device/kernel_choices.h"

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"

namespace tandem {
namespace {

/// Changes when keys or names take another meaning: older files are then chosen anew.
constexpr std::string_view header = "tandem kernel choices 2";
constexpr auto write_interval = std::chrono::seconds(2);

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

KernelChoices::KernelChoices(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty()) names_ = read();
}

KernelChoices::~KernelChoices() {
  if (!unwritten_.empty()) write();
}

std::optional<std::string> KernelChoices::find(std::string_view key) const {
  const auto found = names_.find(key);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

void KernelChoices::record(const std::string& key, const std::string& name) {
  TANDEM_CHECK((key + name).find_first_of("\t\n") == std::string::npos, "a key of several fields");
  ++made_;
  names_[key] = name;
  if (file_.empty()) return;
  unwritten_[key] = name;
  if (std::chrono::steady_clock::now() - written_ > write_interval) write();
}

KernelChoices::Names KernelChoices::read() const {
  Names names;
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) return names;  // the first run on this machine
  std::string line;
  if (!std::getline(stream, line) || line != header) {
    log_warning("'{}' is no list of chosen kernels of this version; they are chosen anew",
                file_.string());
    return names;
  }
  std::size_t damaged = 0;
  while (std::getline(stream, line)) {
    const std::size_t tab = line.find('\t');
    // A line that the file ends in the middle of may be half a name.
    if (tab == 0 || tab == std::string::npos || tab + 1 == line.size() || stream.eof()) {
      ++damaged;
      continue;
    }
    names[line.substr(0, tab)] = line.substr(tab + 1);
  }
  if (damaged > 0) log_warning("'{}': {} damaged lines ignored", file_.string(), damaged);
  return names;
}

void KernelChoices::write() noexcept {
  if (!writable_) return;
  try {
    Names names = read();
    for (const auto& [key, name] : unwritten_) names[key] = name;
    std::string text(header);
    text += '\n';
    for (const auto& [key, name] : names) text += key + '\t' + name + '\n';
    std::filesystem::create_directories(file_.parent_path());
    AtomicFile file(file_);
    file.write(text);
    file.commit();
    unwritten_.clear();
    written_ = std::chrono::steady_clock::now();
  } catch (const std::exception& error) {
    writable_ = false;
    log_warning("chosen kernels are not kept for later runs: {}", error.what());
  }
}

std::filesystem::path cache_folder() {
  if (const char* folder = variable("TANDEM_CACHE_DIR")) return folder;
  if (const char* folder = variable("XDG_CACHE_HOME")) {
    return std::filesystem::path(folder) / "tandem";
  }
  if (const char* home = variable("HOME")) {
    return std::filesystem::path(home) / ".cache" / "tandem";
  }
  return {};
}

std::string file_name_of(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '-';
    if (!kept) c = '_';
  }
  return name;
}

}  // namespace tandem
