#include "cli/launched_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "cli/faults/fault_check.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

LaunchedJob::LaunchedJob() : device_(launch_device(root())) {
  fs::create_directories(path("run"));
  fs::permissions(path("run"), fs::perms::owner_all);
}

Launch LaunchedJob::launch(const Words& options, const Words& training,
                           const std::string& out) const {
  Words words{"launch"};
  words.insert(words.end(), options.begin(), options.end());
  const auto gpus = std::ranges::find(options, "--gpus");
  if (gpus == options.end()) {
    words.insert(words.end(), device_.options.begin(), device_.options.end());
  }
  words.emplace_back("--");
  Words train = set(device_.settings);
  // Ranks without GPUs compute on the CPU, whatever those on the device do.
  if (gpus != options.end() && *std::next(gpus) == "none") {
    train = set({"train.device=cpu"}, train);
  }
  train.insert(train.end(), training.begin(), training.end());
  train = train_command(out, train);
  words.insert(words.end(), train.begin() + 1, train.end());
  return with_driver(words);
}

Launch LaunchedJob::with_driver(const Words& words) const {
  Launch launch{.command = tandem(words), .folder = root(), .environment = device_.environment};
  return with(launch, "XDG_RUNTIME_DIR", path("run").string());
}

Launch LaunchedJob::with(Launch launch, const std::string& name, const std::string& value) {
  launch.environment.emplace_back(name, value);
  return launch;
}

Launch LaunchedJob::with_script(Launch launch, const std::string& name,
                                const std::string& script) const {
  const fs::path folder = path("bin");
  fs::create_directories(folder);
  write_file(folder / name, script);
  fs::permissions(folder / name, fs::perms::owner_all);
  std::string search = std::getenv("PATH");
  for (const auto& [variable, value] : launch.environment) {
    if (variable == "PATH") search = value;
  }
  return with(std::move(launch), "PATH", folder.string() + ":" + search);
}

Words LaunchedJob::endless_job(const Words& training) const {
  Words all = endless({"train.global_batch=32",
                       fmt::format("checkpoint.every_steps={}", device_.checkpoint_every)});
  all.insert(all.end(), training.begin(), training.end());
  return all;
}

std::unique_ptr<Program> LaunchedJob::started(const Words& options, const Words& training) {
  return started(launch(options, endless_job(training)));
}

std::unique_ptr<Program> LaunchedJob::started(Launch launch) {
  auto program = std::make_unique<Program>(std::move(launch));
  wait_until("the first checkpoint is there", device_.start_seconds,
             [&] { return !program->running() || !checkpoint_steps(path("out")).empty(); });
  if (!program->running()) throw std::runtime_error("the job ended: " + program->wait().err);
  for (const pid_t process : processes_of_jobs()) add_shared_files(process, shared_files_);
  return program;
}

std::vector<pid_t> LaunchedJob::processes_of_jobs() const {
  // All of them have the variable, the MPS daemon and its servers too.
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (!is_number(name)) continue;
    const pid_t process = std::stoi(name);
    if (environment_of(process, "XDG_RUNTIME_DIR") == path("run")) found.push_back(process);
  }
  return found;
}

void LaunchedJob::expect_nothing_left() const {
  wait_until("no MPS folder is left", 20.0, [&] { return fs::is_empty(path("run")); });
  wait_until("no process is left", 20.0, [&] { return processes_of_jobs().empty(); });
  wait_until("no shared memory is left", 10.0, [&] { return files_left(shared_files_).empty(); });
  wait_until("no folder is left in /dev/shm", 10.0, [&] {
    return std::ranges::none_of(shared_files_, [](const fs::path& file) {
      return file.parent_path() != "/dev/shm" && fs::exists(file.parent_path());
    });
  });
}

pid_t LaunchedJob::process_named(const std::string& word) const {
  for (const pid_t process : processes_of_jobs()) {
    const std::string command = read_file(fmt::format("/proc/{}/cmdline", process));
    if (command.find('\0' + word + '\0' + path("run").string()) != std::string::npos) {
      return process;
    }
  }
  throw std::runtime_error("no process " + word);
}

std::string environment_of(pid_t process, const std::string& name) {
  const std::string all = '\0' + read_file(fmt::format("/proc/{}/environ", process));
  const std::size_t at = all.find('\0' + name + "=");
  if (at == std::string::npos) return "not set";
  return all.c_str() + at + 1 + name.size() + 1;
}

}  // namespace tandem::cli
