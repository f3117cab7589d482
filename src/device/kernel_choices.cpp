#include "device/kernel_choices.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"

namespace tandem {
namespace {

/// Changes when keys or names take another meaning, or there is more to choose from: older files
/// are then chosen anew.
constexpr std::string_view header = "tandem kernel choices 5";
/// Before a line of adopt()'s text that no file gets; no key begins with it.
constexpr char remembered_mark = '\t';
constexpr auto write_interval = std::chrono::seconds(2);

using Names = std::map<std::string, std::string, std::less<>>;

/// Reads lines of key and name into `names`. Returns how many lines are none.
std::size_t parse(std::istream& lines, Names& names) {
  std::size_t damaged = 0;
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t tab = line.find('\t');
    // A line that the text ends in the middle of may be half a name.
    if (tab == 0 || tab == std::string::npos || tab + 1 == line.size() || lines.eof()) {
      ++damaged;
      continue;
    }
    names[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return damaged;
}

std::string text_of(const Names& names) {
  std::string text;
  for (const auto& [key, name] : names) text.append(key).append("\t").append(name).append("\n");
  return text;
}

/// Reads what text_of() made.
Names names_in(const std::string& text) {
  Names names;
  std::istringstream lines(text);
  const std::size_t damaged = parse(lines, names);
  TANDEM_CHECK(damaged == 0, "{} damaged lines among another process's choices", damaged);
  return names;
}

std::optional<std::string> name_in(const Names& names, std::string_view key) {
  const auto found = names.find(key);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

void check_fields(const std::string& key, const std::string& name) {
  TANDEM_CHECK((key + name).find_first_of("\t\n") == std::string::npos, "a key of several fields");
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

KernelChoices::KernelChoices(std::filesystem::path file, std::string kind,
                             const std::filesystem::path& lender)
    : file_(std::move(file)), kind_(std::move(kind)), borrows_(!lender.empty()) {
  if (!file_.empty()) names_ = read(file_);
  if (borrows_) lent_ = read(lender);
}

KernelChoices::~KernelChoices() { flush(); }

void KernelChoices::flush() noexcept {
  if (!unwritten_.empty()) write();
}

std::optional<std::string> KernelChoices::find(std::string_view key) const {
  const auto remembered = name_in(remembered_, key);
  return remembered ? remembered : name_in(names_, key);
}

void KernelChoices::record(const std::string& key, const std::string& name) {
  ++made_;
  if (borrows_) return remember(key, name);
  check_fields(key, name);
  remembered_.erase(key);
  names_[key] = name;
  if (file_.empty()) return;
  unwritten_[key] = name;
  if (std::chrono::steady_clock::now() - written_ > write_interval) write();
}

void KernelChoices::remember(const std::string& key, const std::string& name) {
  check_fields(key, name);
  remembered_[key] = name;
}

std::optional<std::string> KernelChoices::find_untimed(std::string_view key) const {
  return name_in(untimed_, key);
}

std::optional<std::string> KernelChoices::lent(std::string_view key) const {
  return name_in(lent_, key);
}

void KernelChoices::borrow(const std::string& key) {
  remember(key, lent_.at(key));
  ++borrowed_;
}

void KernelChoices::remember_untimed(const std::string& key, const std::string& name) {
  check_fields(key, name);
  untimed_[key] = name;
}

std::string KernelChoices::text() const {
  std::string text = text_of(names_);
  for (const auto& [key, name] : remembered_) text += remembered_mark + text_of({{key, name}});
  return text;
}

void KernelChoices::adopt(const std::string& text) {
  std::string chosen;
  std::string remembered;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(remembered_mark)) {
      remembered += line.substr(1) + '\n';
    } else {
      chosen += line + '\n';
    }
  }
  Names others = names_in(chosen);
  remembered_ = names_in(remembered);
  const Names kept = file_.empty() ? Names() : read(file_);
  for (const auto& [key, name] : others) {
    const auto found = kept.find(key);
    if (found != kept.end() && found->second == name) {
      unwritten_.erase(key);
    } else if (!file_.empty()) {
      unwritten_[key] = name;
    }
  }
  names_ = std::move(others);
  flush();
}

KernelChoices::Names KernelChoices::read(const std::filesystem::path& file) {
  Names names;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return names;  // the first run on this machine
  std::string line;
  if (!std::getline(stream, line) || line != header) {
    log_warning("'{}' is no list of chosen kernels of this version; they are chosen anew",
                file.string());
    return names;
  }
  const std::size_t damaged = parse(stream, names);
  if (damaged > 0) log_warning("'{}': {} damaged lines ignored", file.string(), damaged);
  return names;
}

void KernelChoices::write() noexcept {
  if (!writable_) return;
  try {
    Names names = read(file_);
    for (const auto& [key, name] : unwritten_) names[key] = name;
    const std::string text = std::string(header) + '\n' + text_of(names);
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
