#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

/// Which of several kernels, or ways to run a step, was fastest for what is to be computed: names
/// under keys, kept in one text file between runs. Keys and names are one line each and hold no
/// tab.
///
/// Several processes may use one file: it is replaced whole, and a writer first takes over what
/// others wrote. A file that cannot be read or written costs a warning and the choosing, nothing
/// else.
class KernelChoices {
 public:
  /// In memory alone.
  KernelChoices() = default;
  /// `kind`: of which devices and libraries these are the choices; others with the same kind are
  /// choices for here too. `lender`: the file of another kind, which lent() reads; empty: none.
  /// With a lender no file gets what is chosen here, which may have been timed on top of what is
  /// borrowed.
  explicit KernelChoices(std::filesystem::path file, std::string kind = {},
                         const std::filesystem::path& lender = {});
  /// Writes what is not written yet.
  ~KernelChoices();
  KernelChoices(const KernelChoices&) = delete;
  KernelChoices& operator=(const KernelChoices&) = delete;

  const std::filesystem::path& file() const { return file_; }
  const std::string& kind() const { return kind_; }
  /// Whether the file gets what is chosen here.
  bool keeps() const { return !file_.empty() && !borrows_; }

  std::optional<std::string> find(std::string_view key) const;
  /// Remembers a choice; the file gets it at once or, where many follow each other, a little later.
  void record(const std::string& key, const std::string& name);
  /// Remembers what is used without having been chosen: for this process, and those that adopt its
  /// choices. No file gets it.
  void remember(const std::string& key, const std::string& name);
  /// What was taken untimed where nothing is to be timed (TANDEM_TUNE=off), in this process alone:
  /// find() has it not.
  std::optional<std::string> find_untimed(std::string_view key) const;
  void remember_untimed(const std::string& key, const std::string& name);
  /// What the lender has chosen, which may be slower here than others, or not compute rightly.
  std::optional<std::string> lent(std::string_view key) const;
  /// Remembers that; the lender has it.
  void borrow(const std::string& key);
  /// How many choices this process borrowed itself.
  std::size_t borrowed() const { return borrowed_; }
  /// How many choices this process made itself.
  std::size_t made() const { return made_; }

  /// All choices, and what is remembered, as text for adopt().
  std::string text() const;
  /// Takes what another has in the place of all of its own. The file gets those choices that it has
  /// not, and keeps its others.
  void adopt(const std::string& text);
  /// Writes what is not written yet.
  void flush() noexcept;

  /// What is done with the work that makes a choice; it must be done before the return, and may
  /// find the choice there by then.
  using MakeChoice = std::function<void(const std::function<void()>& work)>;
  /// From now on; empty, as at first: it is just done.
  void make_choices_by(MakeChoice make) { make_ = std::move(make); }
  /// Does the work that makes a choice which find() has not.
  void make(const std::function<void()>& work) { make_ ? make_(work) : work(); }

 private:
  using Names = std::map<std::string, std::string, std::less<>>;

  static Names read(const std::filesystem::path& file);
  void write() noexcept;

  std::filesystem::path file_;
  std::string kind_;
  MakeChoice make_;
  Names names_;
  Names remembered_;  // go before names_
  Names untimed_;
  bool borrows_ = false;
  Names lent_;
  Names unwritten_;
  std::size_t made_ = 0;
  std::size_t borrowed_ = 0;
  bool writable_ = true;
  std::chrono::steady_clock::time_point written_{};
};

/// The folder that such files go to: $TANDEM_CACHE_DIR, $XDG_CACHE_HOME/tandem or ~/.cache/tandem;
/// empty where none of these is set.
std::filesystem::path cache_folder();

/// `text` with all but letters, digits, '.' and '-' replaced, for a file's name.
std::string file_name_of(std::string_view text);

}  // namespace tandem
