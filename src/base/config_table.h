#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Which ends of a range of values belong to it.
enum class Ends : std::uint8_t { both, high, low };

/// One table of a TOML file, read key by key. Every accessor checks the type and range and names
/// file, line and key in its InputError. finish() rejects every key that nobody asked for, naming
/// the one of that name in another table, or the nearest known one, so that a mistyped or misplaced
/// key never falls back to a default.
///
/// Copies are cheap and share the record of which keys were read.
class ConfigTable {
 public:
  /// Reads a file. Throws InputError where it is missing or not TOML (file and line named).
  static ConfigTable from_file(const std::filesystem::path& file);
  /// Reads text; `origin` stands for the file name in messages.
  static ConfigTable from_text(std::string_view text, std::string_view origin);

  /// Applies `key=value` with a dotted key, as given on a command line. The value is read as a TOML
  /// value; what is no TOML value is taken as a string, and so is any number, date or truth value
  /// where a string is asked for. Intermediate tables are made as needed. The bare word unset
  /// removes the key, which need not be there, and may not be a table.
  void override_key(std::string_view assignment);
  /// Sets a dotted key, known to be one, to a string; `origin` stands for the file name in
  /// messages. Throws InputError where the string is not UTF-8.
  void set_string(std::string_view key, std::string_view value, std::string_view origin);
  /// The key of such an assignment, which may stand as in a file, with blanks around the sign.
  static std::string key_of(std::string_view assignment);

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;

  /// Required values: a missing key is an InputError.
  std::string get_string(std::string_view key) const;
  /// A path, not empty; a leading ~ is $HOME.
  std::filesystem::path get_path(std::string_view key) const;
  std::int64_t get_int(std::string_view key, std::int64_t low = INT64_MIN,
                       std::int64_t high = INT64_MAX) const;
  /// Integers are accepted as reals.
  double get_real(std::string_view key, double low, double high, Ends ends = Ends::both) const;
  bool get_bool(std::string_view key) const;

  /// Optional values: a missing key gives `fallback`, which is written into the table unless it is
  /// empty or out of range ("not set"); a present one is checked like the above.
  std::string get_string(std::string_view key, std::string_view fallback) const;
  std::int64_t get_int_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                          std::int64_t high) const;
  double get_real_or(std::string_view key, double fallback, double low, double high,
                     Ends ends = Ends::both) const;
  bool get_bool_or(std::string_view key, bool fallback) const;

  /// One of `choices`; anything else is an InputError that lists them.
  std::string get_choice(std::string_view key, std::span<const std::string> choices) const;
  std::string get_choice_or(std::string_view key, std::string_view fallback,
                            std::span<const std::string> choices) const;

  /// Arrays; a missing key gives an empty one. A single string or number counts as an array of one.
  std::vector<std::string> get_strings(std::string_view key) const;
  std::vector<std::int64_t> get_ints(std::string_view key) const;
  std::vector<double> get_reals(std::string_view key) const;
  /// The same with a default, which is written into the table.
  std::vector<double> get_reals_or(std::string_view key, std::span<const double> fallback) const;

  /// A sub-table; a missing one is an empty table (whose required keys are then missing).
  ConfigTable table(std::string_view key) const;
  /// An array of tables (`[[key]]`); a missing one is empty.
  std::vector<ConfigTable> tables(std::string_view key) const;

  /// Throws InputError "FILE:LINE: KEY: missing; expected ..." where the key is missing, naming a
  /// key that nobody asked for so far and that may be a wrong word for it.
  void require(std::string_view key, std::string_view expected) const;
  /// Throws InputError for the first key that was never asked for, sub-tables included.
  void finish() const;

  /// "models/x.toml:12: " style position of a key, or of the table where the key is absent.
  std::string where(std::string_view key = {}) const;
  /// Throws InputError "FILE:LINE: KEY: message" for a value that only the caller can judge.
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

  /// The whole table as TOML text, overrides and the defaults that were taken included.
  std::string to_toml() const;
  /// The folder of the file that this table came from ("." for text).
  std::filesystem::path folder() const;

 private:
  struct Document;
  struct Node;
  ConfigTable(std::shared_ptr<Document> document, Node* node);
  /// The one other table for which `fits` holds, elements of arrays of tables left out; null where
  /// there is none, or several.
  template <typename Fits>
  Node* only_other(const Fits& fits) const;
  struct Assignment {
    std::string value;
    std::string origin;
  };
  /// By which a command line has set the key, which is there, to what TOML takes for a number, a
  /// date or a truth value.
  std::optional<Assignment> assignment_of(std::string_view key) const;
  /// "train.epochs".
  std::string full_key(std::string_view key) const;
  /// " (did you mean 'x'?)" for a key that nobody knows here.
  std::string hint_for(std::string_view unknown) const;
  [[noreturn]] void fail_missing(std::string_view key, std::string_view expected) const;
  std::shared_ptr<Document> document_;
  Node* node_;  // the document's
};

}  // namespace tandem
