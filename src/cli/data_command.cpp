#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/usage_error.h"
#include "data/verify.h"
#include "device/machine.h"
#include "train/record/progress.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct VerifyArguments {
  std::string target;
  std::string kind;
  std::vector<std::string> overrides;
  int threads = 0;
  bool json = false;
};

/// Keys of [data] for a bare folder; MNIST's files have the names that they are published under.
ConfigTable table_of_folder(const VerifyArguments& arguments) {
  const std::string origin = "data verify " + arguments.target;
  ConfigTable table = ConfigTable::from_text("", "command line");
  const auto set = [&](const std::string& key, const std::string& value) {
    table.set_string("data." + key, value, origin);
  };
  set("kind", arguments.kind);
  if (arguments.kind != "idx") {
    set("path", arguments.target);
    if (arguments.kind == "folder") table.override_key("data.size=1");  // nothing is resized here
    return table;
  }
  const std::array<std::array<const char*, 2>, 4> files{{{"train_images", "train-images-idx3"},
                                                         {"train_labels", "train-labels-idx1"},
                                                         {"test_images", "t10k-images-idx3"},
                                                         {"test_labels", "t10k-labels-idx1"}}};
  for (const auto& [key, stem] : files) {
    const std::string plain = (fs::path(arguments.target) / stem).string() + "-ubyte";
    set(key, fs::exists(plain) ? plain : plain + ".gz");
  }
  return table;
}

DataConfig config_of(const VerifyArguments& arguments) {
  const bool is_folder = fs::is_directory(arguments.target);
  if (is_folder && arguments.kind.empty()) {
    input_error("data verify {}: a folder needs --kind, for instance --kind folder",
                arguments.target);
  }
  std::error_code code;
  if (!arguments.kind.empty() && !fs::exists(arguments.target, code)) {
    input_error("data verify {}: no such folder; give the one that holds the data of --kind {}",
                arguments.target, arguments.kind);
  }
  if (!is_folder && !arguments.kind.empty()) {
    input_error(
        "data verify {}: it is no folder, whose kind --kind says; give the folder, or a config "
        "alone, which has its data.kind",
        arguments.target);
  }
  if (is_folder && arguments.kind == "folder" &&
      !fs::is_directory(fs::path(arguments.target) / "train", code)) {
    input_error(
        "data verify {}: no folder 'train' in it; give the one that holds train/ and "
        "validation/ (or val/, test/), each with a folder for every class",
        arguments.target);
  }
  ConfigTable table =
      is_folder ? table_of_folder(arguments) : ConfigTable::from_file(arguments.target);
  for (const std::string& assignment : arguments.overrides) table.override_key(assignment);
  const ConfigTable data = table.table("data");
  DataConfig config = read_data_config(data);
  data.finish();
  return config;
}

/// Without samples there are no labels to tell, and without readable ones no extents: null.
Json part_json(const PartReport& part, const std::vector<std::string>& names) {
  Json counts = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) counts[names[i]] = part.per_class.at(i);
  const auto range = [&](const ExtentRange& extents) -> Json {
    if (part.samples == static_cast<std::int64_t>(part.unreadable.size())) return nullptr;
    return {{"min", extents.least}, {"median", extents.median}, {"max", extents.most}};
  };
  const Json labels = part.samples == 0 ? Json() : Json::array({part.least_label, part.most_label});
  Json unreadable = Json::array();
  for (const BadSample& sample : part.unreadable) unreadable.push_back(sample.reason);
  return {{"samples", part.samples},      {"labels", labels},           {"per_class", counts},
          {"height", range(part.height)}, {"width", range(part.width)}, {"unreadable", unreadable}};
}

std::string json_text(const DataReport& report, const std::vector<std::string>& empty_classes) {
  Json duplicates = Json::array();
  for (const Duplicates& group : report.duplicates) {
    duplicates.push_back(
        {{"train", group.train}, {"test", group.test}, {"labels_differ", group.labels_differ}});
  }
  const Json all{{"train", part_json(report.train, report.class_names)},
                 {"test", part_json(report.test, report.class_names)},
                 {"unreadable", report.unreadable()},
                 {"empty_classes", empty_classes},
                 {"duplicates", duplicates},
                 {"duplicates_across_parts", report.across_parts()}};
  // Paths need not be UTF-8.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print_part(const std::string& name, const PartReport& part) {
  if (part.samples == 0) {
    std::cout << name << ": no samples\n";
    return;
  }
  const auto range = [&](const std::string& what, const auto& extents) {
    // Of what could be read, if anything.
    return part.samples == std::ssize(part.unreadable)
               ? std::string()
               : fmt::format(", {} {} to {} (median {})", what, extents.least, extents.most,
                             extents.median);
  };
  std::cout << fmt::format("{}: {} samples, labels {} to {}{}{}, {} unreadable\n", name,
                           format_count(part.samples), part.least_label, part.most_label,
                           range("heights", part.height), range("widths", part.width),
                           part.unreadable.size());
}

/// A hundred copies of one image are not to fill the terminal; --json names them all.
std::string members_text(const std::vector<std::string>& members) {
  constexpr std::size_t most = 10;
  if (members.size() <= most) return join(members, " = ");
  return fmt::format("{} and {} more", join(std::span(members).first(most), " = "),
                     members.size() - most);
}

void print_report(const DataReport& report, const std::vector<std::string>& empty_classes) {
  print_part("training", report.train);
  print_part("test", report.test);
  std::size_t longest = 5;
  for (const std::string& name : report.class_names) longest = std::max(longest, name.size());
  std::cout << fmt::format("{:<{}} {:>9} {:>9}\n", "class", longest, "training", "test");
  for (std::size_t i = 0; i < report.class_names.size(); ++i) {
    std::cout << fmt::format("{:<{}} {:>9} {:>9}\n", report.class_names[i], longest,
                             report.train.per_class[i], report.test.per_class[i]);
  }
  for (const std::string& folder : empty_classes) {
    std::cout << fmt::format("empty: {}: class folder without a .jpg or .jpeg file\n",
                             one_line(folder));
  }
  for (const PartReport* part : {&report.train, &report.test}) {
    for (const BadSample& sample : part->unreadable) {
      std::cout << "unreadable: " << one_line(sample.reason) << '\n';
    }
  }
  for (const Duplicates& group : report.duplicates) {
    std::vector<std::string> members = group.train;
    members.insert(members.end(), group.test.begin(), group.test.end());
    const bool across = !group.train.empty() && !group.test.empty();
    std::cout << fmt::format("the same{}{}: {}\n", across ? ", in training and test set" : "",
                             group.labels_differ ? ", with different labels" : "",
                             one_line(members_text(members)));
  }
  std::cout << fmt::format(
      "{} unreadable, {} group{} of duplicates, {} of them across training and test set\n",
      report.unreadable(), report.duplicates.size(), report.duplicates.size() == 1 ? "" : "s",
      report.across_parts());
}

/// Tells meanwhile how far it is: a live line on a terminal, elsewhere a line now and then.
DataReport verified(const Datasets& datasets, int threads) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Progress progress;
  return verify_datasets(datasets, threads, [&](std::int64_t done, std::int64_t total) {
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    progress.update(CountState{.done = done, .total = total, .seconds = elapsed.count()});
  });
}

int verify(const VerifyArguments& arguments) {
  const DataConfig config = config_of(arguments);
  // Of a million files this takes a while.
  if (config.kind == DataKind::folder) {
    log_info("listing the files of {} and {}", config.train_path.string(),
             config.test_path.string());
  }
  const DataToVerify data = open_to_verify(config);
  const int threads =
      arguments.threads > 0 ? arguments.threads : default_threads(read_machine(), 1);
  const DataReport report = verified(data.sets, threads);
  if (arguments.json) {
    std::cout << json_text(report, data.empty_classes) << '\n';
  } else {
    print_report(report, data.empty_classes);
  }
  return report.unreadable() > 0 || !data.empty_classes.empty() ? ExitCode::bad_input : 0;
}

}  // namespace

void add_data_command(CLI::App& app, Command& chosen) {
  CLI::App* data = app.add_subcommand("data", "Look at data sets");
  data->require_subcommand(1);
  CLI::App* command = data->add_subcommand(
      "verify", "Decode every image; count classes, unreadable images and duplicates");
  command->footer(
      "Exit code 2 where an image cannot be read or a class has none. Images with the same pixels "
      "are duplicates.\n"
      "Example: tandem data verify --kind folder ~/data/photos");
  auto arguments = std::make_shared<VerifyArguments>();
  command->add_option("TARGET", arguments->target, "A run file, or the data's folder with --kind")
      ->required()
      ->check(not_empty());
  command->add_option("--kind", arguments->kind, "idx, cifar10, cifar100 or folder")
      ->type_name("KIND")
      ->check(one_of({"idx", "cifar10", "cifar100", "folder"}));
  command->add_option("--set", arguments->overrides, "Override a key, for instance data.classes=47")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--threads", arguments->threads, "Decoding threads (default: all cores)")
      ->check(within(1, 1024));
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([&chosen, arguments] {
    chosen = on_root([arguments](const MpiSession&) { return verify(*arguments); });
  });
}

}  // namespace tandem
