#include "base/process_table.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "base/folder_entries.h"
#include "base/text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// What /proc says of a process.
struct Facts {
  char state = '\0';
  pid_t parent = 0;  ///< 0 where the process is gone
};

fs::path folder_of(pid_t process) { return fs::path("/proc") / std::to_string(process); }

Facts facts_of(pid_t process) {
  std::ifstream file(folder_of(process) / "stat");
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE PARENT ...", and a name may hold anything.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return {};
  Facts facts{.state = text[name_end + 2]};
  const char* begin = text.data() + name_end + 4;
  std::from_chars(begin, text.data() + text.size(), facts.parent);
  return facts;
}

/// By a signal, or by a debugger.
bool is_stop(char state) { return state == 'T' || state == 't'; }

std::map<pid_t, pid_t> all_parents() {
  std::map<pid_t, pid_t> parents;
  for (const pid_t process : all_processes()) {
    if (const pid_t parent = facts_of(process).parent; parent > 0) parents[process] = parent;
  }
  return parents;
}

bool descends(const std::map<pid_t, pid_t>& parents, pid_t process, pid_t ancestor) {
  // Ids may be used again while they are read, so that a ring is possible.
  for (std::size_t steps = 0; steps < parents.size(); ++steps) {
    const auto entry = parents.find(process);
    if (entry == parents.end()) return false;
    if (entry->second == ancestor) return true;
    process = entry->second;
  }
  return false;
}

/// The path of a process's program, also where another file has taken its place since; empty where
/// it cannot be read.
std::string program_of(const fs::path& process) {
  constexpr std::string_view replaced = " (deleted)";
  std::error_code error;
  std::string program = fs::read_symlink(process / "exe", error).string();
  if (program.ends_with(replaced)) program.resize(program.size() - replaced.size());
  return program;
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  for (const fs::path& entry : entries_of("/proc").paths) {
    if (const auto process = parse_number<pid_t>(entry.filename().string())) {
      found.push_back(*process);
    }
  }
  return found;
}

std::vector<pid_t> own_processes_below(pid_t ancestor) {
  const std::string program = program_of("/proc/self");
  if (program.empty()) return {};
  const std::map<pid_t, pid_t> parents = all_parents();
  std::vector<pid_t> found;
  for (const auto& [process, parent] : parents) {
    if (!descends(parents, process, ancestor)) continue;
    if (program_of(folder_of(process)) == program) found.push_back(process);
  }
  return found;
}

bool is_stopped(pid_t process) { return is_stop(facts_of(process).state); }

bool has_exited(pid_t process) {
  const char state = facts_of(process).state;
  return state == '\0' || state == 'Z' || state == 'X';
}

bool has_stopped_ancestor() {
  for (pid_t process = ::getppid(); process > 0;) {
    const Facts facts = facts_of(process);
    if (is_stop(facts.state)) return true;
    process = facts.parent;
  }
  return false;
}

std::vector<std::string> environment_of(pid_t process) {
  std::ifstream file(folder_of(process) / "environ", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

bool has_thread(pid_t process, std::string_view name) {
  for (const fs::path& thread : entries_of(folder_of(process) / "task").paths) {
    std::ifstream file(thread / "comm");
    std::string its;
    if (std::getline(file, its) && its == name) return true;
  }
  return false;
}

bool is_on_this_host(pid_t process) {
  for (const char* name : {"ns/uts", "ns/net"}) {
    std::error_code error;
    const fs::path its = fs::read_symlink(folder_of(process) / name, error);
    if (error || its != fs::read_symlink(folder_of(::getpid()) / name, error)) return false;
  }
  return true;
}

}  // namespace tandem
