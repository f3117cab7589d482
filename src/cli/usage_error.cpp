#include "cli/usage_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tandem {
namespace {

using Words = std::vector<std::string>;

Words options_of(const CLI::App& command) {
  Words names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Words subcommands_of(const CLI::App& command) {
  Words names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) names.push_back(each->get_name());
  }
  return names;
}

/// Where to put an option that is not this command's; empty where it is nobody's.
std::string right_place(const CLI::App& command, const std::string& option) {
  // Other launchers' options.
  constexpr std::array ranks{"-n", "-np", "-c", "--np", "--ranks", "--ntasks", "--nproc-per-node"};
  constexpr std::array hosts{"-H", "-N", "--host", "--nodes", "--nnodes", "--hostfile"};
  if (command.get_name() == "launch") {
    if (std::ranges::count(ranks, option) > 0) {
      return "; how many ranks there are say --gpus and --ranks-per-gpu";
    }
    if (std::ranges::count(hosts, option) > 0) return "; hosts are named by --hosts";
    return "; put -- before the command and its options: tandem launch -- train CONFIG " + option;
  }
  constexpr std::array launched{"train", "bench", "eval"};
  const CLI::App* program = command.get_parent();
  if (program == nullptr || !std::ranges::count(launched, command.get_name())) return {};
  const std::vector<const CLI::App*> launch =
      program->get_subcommands([](const CLI::App* other) { return other->get_name() == "launch"; });
  if (launch.empty() || !std::ranges::count(options_of(*launch.front()), option)) return {};
  return fmt::format(
      "; it is one of tandem launch, which stand before --: tandem launch {} ... -- {}", option,
      command.get_name());
}

/// What is wrong with words that nothing took; empty where there are none.
std::string stray_text(const CLI::App& command, Words stray) {
  std::erase(stray, "--");
  const auto option =
      std::ranges::find_if(stray, [](const std::string& word) { return word.starts_with('-'); });
  if (option != stray.end()) {
    const std::string name = option->substr(0, option->find('='));
    std::string meant = did_you_mean(name, options_of(command));
    if (meant.empty()) meant = right_place(command, name);
    return fmt::format("unknown option '{}'{}", name, meant);
  }
  if (stray.empty()) return {};
  const Words subcommands = subcommands_of(command);
  if (subcommands.empty()) return fmt::format("unexpected argument '{}'", stray.front());
  return fmt::format("no subcommand is called '{}'{}", stray.front(),
                     did_you_mean(stray.front(), subcommands));
}

std::string mistake_text(const CLI::App& command, const Words& stray,
                         const CLI::ParseError& error) {
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    if (std::string text = stray_text(command, stray); !text.empty()) return text;
  }
  const Words subcommands = subcommands_of(command);
  if (missing && !subcommands.empty()) {
    return fmt::format("a subcommand is missing: {}", join(subcommands, ", "));
  }
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

template <typename Number>
CLI::Validator between(Number low, Number high, std::string_view kind) {
  return {[low, high, kind](const std::string& text) {
            const auto number = parse_number<Number>(text);
            if (number && *number >= low && *number <= high) return std::string();
            return fmt::format("'{}' is no {} from {} to {}", text, kind, low, high);
          },
          fmt::format("in [{} - {}]", low, high), "within"};
}

}  // namespace

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return fmt::format("{}: {}; see {} --help", name,
                     mistake_text(*command, app.remaining(true), error), name);
}

CLI::Validator not_empty(std::string_view what) {
  return {[what = std::string(what)](const std::string& text) {
            return text.empty() ? fmt::format("the {} is empty", what) : std::string();
          },
          "", "not empty"};
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string list = fmt::format("{{{}}}", join(words, ","));
  return {[words = std::move(words)](const std::string& text) {
            return std::ranges::count(words, text) > 0 ? std::string() : not_one_of(text, words);
          },
          list, "one of"};
}

CLI::Validator no_home_sign() {
  return {[](const std::string& text) {
            if (text.empty()) return std::string("the path is empty");
            if (text.front() != '~') return std::string();
            return fmt::format(
                "'{}' begins with ~, which shells replace after a space alone; write $HOME", text);
          },
          "", "no ~"};
}

CLI::Validator within(double low, double high) { return between(low, high, "number"); }

CLI::Validator within(int low, int high) { return between(low, high, "whole number"); }

}  // namespace tandem
