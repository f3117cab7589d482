#include "base/config_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "base/config_document.h"
#include "base/error.h"
#include "base/file_work.h"
#include "base/text.h"
#include "base/toml_text.h"

namespace tandem {
namespace {

template <typename N>
toml::table& existing_table(N& node) {
  if (node.table == nullptr) {
    toml::table& parent = existing_table(*node.parent);
    parent.insert_or_assign(node.key, toml::table{});
    node.table = parent.get(node.key)->as_table();
  }
  return *node.table;
}

/// Writes a default that was taken into the document, so that to_toml() says what a run really had.
template <typename N, typename T>
T record_default(N& node, std::string_view key, T value) {
  existing_table(node).insert(key, value);
  return value;
}

const toml::node* find(const toml::table* table, std::string_view key) {
  return table == nullptr ? nullptr : table->get(key);
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a real number";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

}  // namespace

ConfigTable::ConfigTable(std::shared_ptr<Document> document, Node* node)
    : document_(std::move(document)), node_(node) {}

ConfigTable ConfigTable::from_text(std::string_view text, std::string_view origin) {
  auto document = std::make_shared<Document>();
  document->root = parse_toml(text, origin);
  document->origin = origin;
  Node* node = document->make_node();
  node->table = &document->root;
  return {document, node};
}

ConfigTable ConfigTable::from_file(const std::filesystem::path& file) {
  file_in_hand(file);
  std::error_code code;
  if (std::filesystem::is_directory(file, code)) {
    const std::filesystem::path inside = file / "config.toml";  // as a run's folder has
    input_error("{}: a folder; give the path of a TOML file{}", file.string(),
                std::filesystem::exists(inside, code) ? ", as " + inside.string() : "");
  }
  if (!std::filesystem::is_regular_file(file, code)) {
    input_error("{}: no {} file; give the path of a TOML file", file.string(),
                std::filesystem::exists(file, code) ? "ordinary" : "such");
  }
  std::string text;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"),
                                                                 &std::fclose);
    if (!stream) input_error("{}: cannot be read; check its permissions", file.string());
    char chunk[65536];
    for (std::size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, stream.get())) > 0;) {
      text.append(chunk, n);
    }
    if (std::ferror(stream.get()) != 0) {
      input_error("{}: reading failed ({})", file.string(), std::strerror(errno));
    }
  }
  ConfigTable made = from_text(text, file.string());
  made.document_->folder = file.has_parent_path() ? file.parent_path() : ".";
  return made;
}

bool ConfigTable::has(std::string_view key) const {
  node_->known.emplace(key);
  return find(node_->table, key) != nullptr;
}

std::vector<std::string> ConfigTable::keys() const {
  std::vector<std::string> all;
  if (node_->table == nullptr) return all;
  for (const auto& [key, value] : *node_->table) all.emplace_back(key.str());
  return all;
}

std::string ConfigTable::where(std::string_view key) const {
  const toml::node* node = find(node_->table, key);
  if (node == nullptr) node = node_->table;
  if (node == nullptr) return document_->origin;
  const toml::source_region& source = node->source();
  if (source.path != nullptr && *source.path != document_->origin) return *source.path;
  const auto line = source.begin.line;
  return line == 0 ? document_->origin : fmt::format("{}:{}", document_->origin, line);
}

std::string ConfigTable::full_key(std::string_view key) const {
  return node_->path.empty() ? std::string(key) : fmt::format("{}.{}", node_->path, key);
}

void ConfigTable::fail(std::string_view key, std::string_view message) const {
  input_error("{}: {}: {}", where(key), full_key(key), message);
}

template <typename Fits>
ConfigTable::Node* ConfigTable::only_other(const Fits& fits) const {
  Node* found = nullptr;
  for (const std::unique_ptr<Node>& other : document_->nodes) {
    if (other.get() == node_ || other->parent == nullptr || !fits(*other)) continue;
    if (found != nullptr) return nullptr;
    found = other.get();
  }
  return found;
}

void ConfigTable::fail_missing(std::string_view key, std::string_view expected) const {
  const std::string message = fmt::format("missing; expected {}", expected);
  // Of a table that is not there its name may be the wrong one.
  const bool absent = node_->table == nullptr && node_->parent != nullptr;
  const ConfigTable place{document_, absent ? node_->parent : node_};
  const std::string wanted = absent ? node_->key : std::string(key);
  for (const std::string& other : place.keys()) {
    if (place.node_->known.contains(other) || !may_mean(other, wanted)) continue;
    fail(key, fmt::format("{}; is it '{}' of {} that is to be '{}'?", message, other,
                          place.where(other), wanted));
  }
  Node* elsewhere = only_other([key](const Node& other) {
    return find(other.table, key) != nullptr && !other.known.contains(key);
  });
  if (elsewhere != nullptr) {
    fail(key,
         fmt::format("{}; is it '{}.{}' of {} that is to be '{}.{}'?", message, elsewhere->path,
                     key, ConfigTable(document_, elsewhere).where(key), node_->path, key));
  }
  fail(key, message);
}

void ConfigTable::require(std::string_view key, std::string_view expected) const {
  if (!has(key)) fail_missing(key, expected);
}

namespace {

/// Whether the text is a number beyond the range of T: TOML has none such, so that --set takes it
/// for a string.
template <typename T>
bool is_beyond(const toml::node& node) {
  const std::optional<std::string_view> text = node.value_exact<std::string_view>();
  if (!text) return false;
  const char* const end = text->data() + text->size();
  T value{};
  const auto [stop, code] = std::from_chars(text->data() + text->starts_with('+'), end, value);
  return code == std::errc::result_out_of_range && stop == end;
}

/// Reads `key` as T or calls `fail` with what was expected.
template <typename T, typename Fail>
T value_of(const toml::node* node, std::string_view expected, Fail&& fail) {
  if (const std::optional<T> value = node->value_exact<T>()) return *value;
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    if (is_beyond<T>(*node)) {
      fail(fmt::format("{} is out of range; expected {} of 64 bits",
                       *node->value_exact<std::string_view>(), expected));
    }
  }
  fail(fmt::format("expected {}, found {}", expected, type_name(*node)));
  throw Error("unreachable");
}

template <typename Fail>
double real_of(const toml::node* node, Fail&& fail) {
  if (node->is_integer()) {
    return static_cast<double>(*node->value_exact<std::int64_t>());
  }
  return value_of<double>(node, "a number", fail);
}

template <typename Read>
auto elements(const toml::node* node, Read&& read) {
  std::vector<decltype(read(node))> all;
  if (node == nullptr) return all;
  if (const toml::array* array = node->as_array()) {
    for (const toml::node& element : *array) all.push_back(read(&element));
  } else {
    all.push_back(read(node));
  }
  return all;
}

}  // namespace

std::string ConfigTable::get_string(std::string_view key) const {
  require(key, "a string");
  if (const std::optional<Assignment> typed = assignment_of(key)) {
    ConfigTable(*this).set_string(full_key(key), typed->value, typed->origin);
  }
  return value_of<std::string>(find(node_->table, key), "a string",
                               [&](const std::string& m) { fail(key, m); });
}

std::filesystem::path ConfigTable::get_path(std::string_view key) const {
  const std::string text = get_string(key);
  if (text.empty()) fail(key, "an empty path");
  if (text != "~" && !text.starts_with("~/")) return text;
  const char* home = std::getenv("HOME");
  if (home == nullptr) fail(key, fmt::format("'{}': HOME is not set", text));
  return std::filesystem::path(home) / text.substr(text.size() > 1 ? 2 : 1);
}

std::int64_t ConfigTable::get_int(std::string_view key, std::int64_t low, std::int64_t high) const {
  require(key, "an integer");
  const auto value = value_of<std::int64_t>(find(node_->table, key), "an integer",
                                            [&](const std::string& m) { fail(key, m); });
  if (value < low) fail(key, fmt::format("{} is too small; the least is {}", value, low));
  if (value > high) fail(key, fmt::format("{} is too large; the most is {}", value, high));
  return value;
}

namespace {

std::string text_of(double low, double high, Ends ends) {
  if (ends == Ends::high) return fmt::format("more than {}, at most {}", low, high);
  if (ends == Ends::low) return fmt::format("{} or more, less than {}", low, high);
  return fmt::format("{} to {}", low, high);
}

}  // namespace

double ConfigTable::get_real(std::string_view key, double low, double high, Ends ends) const {
  require(key, "a number");
  const double value =
      real_of(find(node_->table, key), [&](const std::string& m) { fail(key, m); });
  const bool inside = value >= low && value <= high;
  if (inside && (value != low || ends != Ends::high) && (value != high || ends != Ends::low)) {
    return value;
  }
  fail(key, fmt::format("{} is out of range; expected {}", value, text_of(low, high, ends)));
}

bool ConfigTable::get_bool(std::string_view key) const {
  require(key, "true or false");
  return value_of<bool>(find(node_->table, key), "true or false",
                        [&](const std::string& m) { fail(key, m); });
}

std::string ConfigTable::get_string(std::string_view key, std::string_view fallback) const {
  if (has(key)) return get_string(key);
  return fallback.empty() ? "" : record_default(*node_, key, std::string(fallback));
}

std::int64_t ConfigTable::get_int_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                     std::int64_t high) const {
  if (has(key)) return get_int(key, low, high);
  // A fallback outside the range stands for "not set", which only an absent key says.
  return fallback < low || fallback > high ? fallback : record_default(*node_, key, fallback);
}

double ConfigTable::get_real_or(std::string_view key, double fallback, double low, double high,
                                Ends ends) const {
  if (has(key)) return get_real(key, low, high, ends);
  return fallback < low || fallback > high ? fallback : record_default(*node_, key, fallback);
}

bool ConfigTable::get_bool_or(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : record_default(*node_, key, fallback);
}

std::string ConfigTable::get_choice(std::string_view key,
                                    std::span<const std::string> choices) const {
  std::string value = get_string(key);
  if (std::ranges::find(choices, value) == choices.end()) fail(key, not_one_of(value, choices));
  return value;
}

std::string ConfigTable::get_choice_or(std::string_view key, std::string_view fallback,
                                       std::span<const std::string> choices) const {
  if (has(key)) return get_choice(key, choices);
  return fallback.empty() ? "" : record_default(*node_, key, std::string(fallback));
}

std::vector<std::string> ConfigTable::get_strings(std::string_view key) const {
  node_->known.emplace(key);
  const toml::node* const given = find(node_->table, key);
  if (given != nullptr && given->is_value()) return {get_string(key)};
  return elements(find(node_->table, key), [&](const toml::node* node) {
    return value_of<std::string>(node, "a string", [&](const std::string& m) { fail(key, m); });
  });
}

std::vector<std::int64_t> ConfigTable::get_ints(std::string_view key) const {
  node_->known.emplace(key);
  return elements(find(node_->table, key), [&](const toml::node* node) {
    return value_of<std::int64_t>(node, "an integer", [&](const std::string& m) { fail(key, m); });
  });
}

std::vector<double> ConfigTable::get_reals(std::string_view key) const {
  node_->known.emplace(key);
  return elements(find(node_->table, key), [&](const toml::node* node) {
    return real_of(node, [&](const std::string& m) { fail(key, m); });
  });
}

std::vector<double> ConfigTable::get_reals_or(std::string_view key,
                                              std::span<const double> fallback) const {
  if (has(key)) return get_reals(key);
  toml::array values;
  for (const double value : fallback) values.push_back(value);
  record_default(*node_, key, values);
  return {fallback.begin(), fallback.end()};
}

ConfigTable ConfigTable::table(std::string_view key) const {
  node_->known.emplace(key);
  std::vector<Node*>& made = node_->children[std::string(key)];
  if (made.empty()) {
    const toml::node* node = find(node_->table, key);
    if (node != nullptr && !node->is_table()) {
      fail(key, fmt::format("expected a table, found {}", type_name(*node)));
    }
    Node* child = document_->make_node();
    child->table = node == nullptr ? nullptr : node_->table->get(key)->as_table();
    child->parent = node_;
    child->key = key;
    child->path = node_->path.empty() ? std::string(key) : fmt::format("{}.{}", node_->path, key);
    made.push_back(child);
  }
  return {document_, made.front()};
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) const {
  node_->known.emplace(key);
  std::vector<Node*>& made = node_->children[std::string(key)];
  toml::node* node = node_->table == nullptr ? nullptr : node_->table->get(key);
  if (made.empty() && node != nullptr) {
    toml::array* array = node->as_array();
    if (array == nullptr) fail(key, fmt::format("expected [[{}]] tables", key));
    for (toml::node& element : *array) {
      if (!element.is_table()) fail(key, fmt::format("expected [[{}]] tables", key));
      Node* child = document_->make_node();
      child->table = element.as_table();
      child->path = node_->path.empty() ? fmt::format("{}[{}]", key, made.size())
                                        : fmt::format("{}.{}[{}]", node_->path, key, made.size());
      made.push_back(child);
    }
  }
  std::vector<ConfigTable> all;
  all.reserve(made.size());
  for (Node* child : made) all.push_back(ConfigTable(document_, child));
  return all;
}

std::string ConfigTable::hint_for(std::string_view unknown) const {
  const Node* elsewhere =
      only_other([unknown](const Node& other) { return other.known.contains(unknown); });
  if (elsewhere != nullptr)
    return fmt::format(" (did you mean '{}.{}'?)", elsewhere->path, unknown);
  return did_you_mean(unknown, std::vector(node_->known.begin(), node_->known.end()));
}

void ConfigTable::finish() const {
  if (node_->table == nullptr) return;
  for (const auto& [key, value] : *node_->table) {
    if (node_->known.contains(key.str())) continue;
    const std::string hint = hint_for(key.str());
    std::string message =
        fmt::format("unknown key{}; known here: {}", hint, fmt::join(node_->known, ", "));
    // Such as one of another optimizer than that which the command line names.
    if (hint.empty() && document_->has_overrides && !where(key.str()).starts_with("--set")) {
      message += fmt::format("; --set {}=unset removes it", full_key(key.str()));
    }
    fail(key.str(), message);
  }
  for (const auto& [name, children] : node_->children) {
    for (Node* child : children) ConfigTable(document_, child).finish();
  }
}

std::string ConfigTable::to_toml() const {
  return node_->table == nullptr ? std::string() : toml_text(*node_->table);
}

std::filesystem::path ConfigTable::folder() const { return document_->folder; }

}  // namespace tandem
