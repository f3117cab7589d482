#include "cli/faults/fault_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "support/process.h"

namespace tandem::cli {

namespace {

bool threads_stand_still(pid_t process) {
  const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", process));
  return std::all_of(begin(threads), end(threads), [](const auto& thread) {
    return process_state(std::stoi(thread.path().filename())) == 'T';
  });
}

}  // namespace

Outcome end_with_fault(Program& program, double limit) {
  Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_LT(outcome.seconds, limit);
  return outcome;
}

Outcome end_after_fault(Program& program, double limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Outcome outcome = program.wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_LT(seconds, limit);
  std::printf("the job ended %.1f s after the fault\n", seconds);
  return outcome;
}

std::string only_error(const Outcome& outcome) {
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  const std::size_t at = outcome.err.find("error: ");
  if (at == std::string::npos) return "";
  return outcome.err.substr(at, outcome.err.find('\n', at) - at);
}

std::string host_name() {
  std::array<char, 256> name{};
  EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

void hold(pid_t process) {
  Program::signal(process, SIGSTOP);
  wait_until("the process stands still", 20.0, [&] { return threads_stand_still(process); });
}

void add_shared_files(pid_t process, std::set<std::filesystem::path>& files) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find("/dev/shm/");
    if (at != std::string::npos && !line.ends_with(" (deleted)")) files.insert(line.substr(at));
  }
}

std::set<std::filesystem::path> files_left(const std::set<std::filesystem::path>& files) {
  std::set<std::filesystem::path> left;
  for (const std::filesystem::path& file : files) {
    if (std::filesystem::exists(file)) left.insert(file);
  }
  return left;
}

void expect_gone(pid_t process) {
  wait_until("the rank's process is gone", 20.0, [&] { return has_ended(process); });
  const std::string shared = fmt::format("tandem-{}-", process);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(shared)) << entry.path();
  }
}

}  // namespace tandem::cli
