#include "base/config_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

constexpr std::string_view text = R"(name = "run"
epochs = 3
lr = 0.5
fast = true
when = 2024-01-01

[data]
kind = "idx"
sizes = [1, 2, 3]
one = 7

[data.crop]
padding = 4

[[layer]]
name = "a"
[[layer]]
name = "b"
stride = 2
)";

ConfigTable sample() { return ConfigTable::from_text(text, "run.toml"); }

template <typename Action>
std::string rejected(Action&& action) {
  return message_of<InputError>(std::forward<Action>(action));
}

TEST(ConfigTable, ReadsEveryType) {
  const ConfigTable config = sample();
  EXPECT_EQ(config.get_string("name"), "run");
  EXPECT_EQ(config.get_int("epochs"), 3);
  EXPECT_EQ(config.get_real("lr", 0, 1), 0.5);
  EXPECT_EQ(config.get_real("epochs", 0, 10), 3.0) << "integers are reals";
  EXPECT_TRUE(config.get_bool("fast"));
  EXPECT_EQ(config.table("data").get_ints("sizes"), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(config.table("data").get_reals("sizes"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(config.table("data").get_ints("one"), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(config.get_strings("name"), (std::vector<std::string>{"run"}));
  EXPECT_TRUE(config.get_strings("nothing").empty());
  EXPECT_EQ(config.table("data").table("crop").get_int("padding"), 4);
}

TEST(ConfigTable, PathsBeginAtHome) {
  const char* const before = std::getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  ASSERT_EQ(::setenv("HOME", "/home/me", 1), 0);
  const ConfigTable config =
      ConfigTable::from_text("a = '~/x/y'\nb = '~'\nc = 'x/~'\nd = '~you/x'\ne = ''\n", "run.toml");
  EXPECT_EQ(config.get_path("a"), "/home/me/x/y");
  EXPECT_EQ(config.get_path("b"), "/home/me/");
  EXPECT_EQ(config.get_path("c"), "x/~");
  EXPECT_EQ(config.get_path("d"), "~you/x");
  EXPECT_EQ(rejected([&] { config.get_path("e"); }), "run.toml:5: e: an empty path");
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_EQ(rejected([&] { config.get_path("a"); }), "run.toml:1: a: '~/x/y': HOME is not set");
  if (before != nullptr) {
    ASSERT_EQ(::setenv("HOME", kept.c_str(), 1), 0);
  }
}

TEST(ConfigTable, MissingKeysFallBackOnlyWhereAsked) {
  const ConfigTable config = sample();
  EXPECT_EQ(config.get_string("text", "x"), "x");
  EXPECT_EQ(config.get_int_or("count", 5, 0, 9), 5);
  EXPECT_EQ(config.get_real_or("rate", 0.25, 0, 1), 0.25);
  EXPECT_FALSE(config.get_bool_or("flag", false));
  EXPECT_FALSE(config.has("other"));
  EXPECT_EQ(rejected([&] { config.get_string("other"); }),
            "run.toml:1: other: missing; expected a string");
  EXPECT_EQ(rejected([&] { config.table("data").get_int("size"); }),
            "run.toml:7: data.size: missing; expected an integer; is it 'sizes' of run.toml:9 that "
            "is to be 'size'?");
  EXPECT_EQ(rejected([&] { config.table("elsewhere").get_int("size"); }),
            "run.toml: elsewhere.size: missing; expected an integer");
}

TEST(ConfigTable, AMissingKeyMayStandThereByAnotherWord) {
  const auto hint_of = [](std::string_view lines, const char* table, const char* key) {
    const std::string message =
        rejected([&] { ConfigTable::from_text(lines, "run.toml").table(table).get_int(key); });
    const std::size_t hint = message.find("; is it ");
    return hint == std::string::npos ? "" : message.substr(hint + 2);
  };
  EXPECT_EQ(hint_of("[train]\nx = 1\nepoch = 3\n", "train", "epochs"),
            "is it 'epoch' of run.toml:3 that is to be 'epochs'?");
  EXPECT_EQ(hint_of("[training]\nepochs = 3\n", "train", "epochs"),
            "is it 'training' of run.toml:1 that is to be 'train'?");
  EXPECT_EQ(hint_of("[model]\nnmae = 3\n", "model", "name"),
            "is it 'nmae' of run.toml:2 that is to be 'name'?");
  // Words of their own, which nobody has asked for yet.
  EXPECT_EQ(hint_of("[train]\nseed = 3\n", "train", "global_batch"), "");
  EXPECT_EQ(hint_of("[node]\nout = 3\n", "node", "op"), "");
  EXPECT_EQ(hint_of("[node]\nout = 3\n", "node", "count"), "");
  EXPECT_EQ(hint_of("[node]\nrate = 3\n", "node", "name"), "");
  // Asked for before: it is somebody's own.
  const ConfigTable asked = ConfigTable::from_text("epoch = 3\n", "run.toml");
  EXPECT_EQ(asked.get_int("epoch"), 3);
  EXPECT_EQ(rejected([&] { asked.get_int("epochs"); }),
            "run.toml:1: epochs: missing; expected an integer");
}

TEST(ConfigTable, DefaultsThatWereTakenAreWritten) {
  const ConfigTable config = ConfigTable::from_text("[given]\nlr = 0.1\n", "run.toml");
  EXPECT_EQ(config.table("given").get_real_or("lr", 0.5, 0, 1), 0.1);
  EXPECT_EQ(config.table("given").get_real_or("decay", 0.0005, 0, 1), 0.0005);
  EXPECT_EQ(config.table("absent").get_int_or("count", 5, 0, 9), 5);
  EXPECT_EQ(config.table("absent").get_int_or("unset", -1, 0, 9), -1);
  EXPECT_EQ(config.table("absent").get_string("empty", ""), "");
  constexpr std::array range{0.25, 1.0};
  EXPECT_EQ(config.table("absent").get_reals_or("range", range), (std::vector<double>{0.25, 1.0}));
  config.finish();

  const ConfigTable again = ConfigTable::from_text(config.to_toml(), "resolved");
  EXPECT_EQ(again.table("given").keys(), (std::vector<std::string>{"decay", "lr"}));
  EXPECT_EQ(again.table("absent").keys(), (std::vector<std::string>{"count", "range"}));
  EXPECT_EQ(again.table("given").get_real("decay", 0, 1), 0.0005);
  EXPECT_EQ(again.table("absent").get_reals("range"), (std::vector<double>{0.25, 1.0}));
}

TEST(ConfigTable, WrongTypesAreNamedWithTheirLine) {
  const ConfigTable config = sample();
  EXPECT_EQ(rejected([&] { config.get_int("name"); }),
            "run.toml:1: name: expected an integer, found a string");
  EXPECT_EQ(rejected([&] { config.get_int("lr"); }),
            "run.toml:3: lr: expected an integer, found a real number");
  EXPECT_EQ(rejected([&] { config.get_string("epochs"); }),
            "run.toml:2: epochs: expected a string, found an integer");
  EXPECT_EQ(rejected([&] { config.get_bool("epochs"); }),
            "run.toml:2: epochs: expected true or false, found an integer");
  EXPECT_EQ(rejected([&] { config.get_real("fast", 0, 1); }),
            "run.toml:4: fast: expected a number, found a boolean");
  EXPECT_EQ(rejected([&] { config.get_string("when"); }),
            "run.toml:5: when: expected a string, found a date or time");
  EXPECT_EQ(rejected([&] { config.table("data").get_int("sizes"); }),
            "run.toml:9: data.sizes: expected an integer, found an array");
  EXPECT_EQ(rejected([&] { config.get_int_or("name", 1, 0, 2); }),
            "run.toml:1: name: expected an integer, found a string");
  EXPECT_EQ(rejected([&] { config.table("lr"); }),
            "run.toml:3: lr: expected a table, found a real number");
  EXPECT_EQ(rejected([&] { config.tables("lr"); }), "run.toml:3: lr: expected [[lr]] tables");
  EXPECT_EQ(rejected([&] { config.get_strings("data"); }),
            "run.toml:7: data: expected a string, found a table");
}

TEST(ConfigTable, RangesAndChoicesAreChecked) {
  const ConfigTable config = sample();
  const std::vector<std::string> kinds{"cifar10", "folder"};
  EXPECT_EQ(rejected([&] { config.get_int("epochs", 4, 9); }),
            "run.toml:2: epochs: 3 is too small; the least is 4");
  EXPECT_EQ(rejected([&] { config.get_int("epochs", 0, 2); }),
            "run.toml:2: epochs: 3 is too large; the most is 2");
  EXPECT_EQ(rejected([&] { config.get_real("lr", 1, 2); }),
            "run.toml:3: lr: 0.5 is out of range; expected 1 to 2");
  EXPECT_EQ(
      rejected([&] { ConfigTable::from_text("lr = nan\n", "run.toml").get_real("lr", 0, 1); }),
      "run.toml:1: lr: nan is out of range; expected 0 to 1");
  EXPECT_EQ(rejected([&] { config.table("data").get_choice("kind", kinds); }),
            "run.toml:8: data.kind: 'idx' is not one of cifar10, folder");
  EXPECT_EQ(config.get_choice_or("nothing", "folder", kinds), "folder");
}

// One message says what is allowed: who mends -1 by it does not meet another about 0.
TEST(ConfigTable, RangesMayBeOpenAtOneEnd) {
  const auto message = [](const std::string& value, Ends ends) {
    const ConfigTable config = ConfigTable::from_text("lr = " + value + "\n", "run.toml");
    return rejected([&] { config.get_real_or("lr", 0.5, 0, 1, ends); });
  };
  for (const char* value : {"0", "-1", "1.5", "nan"}) {
    EXPECT_EQ(message(value, Ends::high), std::string("run.toml:1: lr: ") + value +
                                              " is out of range; expected more than 0, at most 1");
  }
  for (const char* value : {"1", "-1", "1.5", "nan"}) {
    EXPECT_EQ(message(value, Ends::low), std::string("run.toml:1: lr: ") + value +
                                             " is out of range; expected 0 or more, less than 1");
  }
  const ConfigTable config = ConfigTable::from_text("zero = 0\none = 1\n", "run.toml");
  EXPECT_EQ(config.get_real("one", 0, 1, Ends::high), 1.0);
  EXPECT_EQ(config.get_real("zero", 0, 1, Ends::low), 0.0);
}

TEST(ConfigTable, FinishNamesTheUnknownKeyAndTheNearest) {
  const ConfigTable config = ConfigTable::from_text("epoch = 3\nname = 'x'\n", "run.toml");
  config.get_string("name");
  config.get_int_or("epochs", 1, 0, 9);
  EXPECT_EQ(rejected([&] { config.finish(); }),
            "run.toml:1: epoch: unknown key (did you mean 'epochs'?); known here: epochs, name");
}

TEST(ConfigTable, AKeyOfAnotherTableIsNamedInFull) {
  const auto message = [](std::string_view lines) {
    const ConfigTable config = ConfigTable::from_text(lines, "run.toml");
    config.table("train").get_int_or("batch", 1, 0, 9);
    config.table("train").get_int_or("seed", 1, 0, 9);
    config.table("data").get_int_or("seed", 1, 0, 9);
    config.table("data").table("augment").get_int_or("flip", 1, 0, 9);
    config.table("optimizer").get_int("lr");
    return rejected([&] { config.finish(); });
  };
  EXPECT_EQ(message("[optimizer]\nlr = 1\n[train]\nlr = 1\n"),
            "run.toml:4: train.lr: unknown key (did you mean 'optimizer.lr'?); known here: batch, "
            "seed");
  EXPECT_EQ(message("[optimizer]\nlr = 1\nflip = 1\n"),
            "run.toml:3: optimizer.flip: unknown key (did you mean 'data.augment.flip'?); known "
            "here: lr");
  EXPECT_EQ(
      message("[optimizer]\nlr = 1\n[train]\nbatsh = 1\n"),
      "run.toml:4: train.batsh: unknown key (did you mean 'batch'?); known here: batch, seed");
  EXPECT_EQ(message("[optimizer]\nlr = 1\nseed = 1\n"),
            "run.toml:3: optimizer.seed: unknown key; known here: lr")
      << "two tables have one";
}

TEST(ConfigTable, AMissingKeyMayStandInAnotherTable) {
  const auto message = [](std::string_view lines) {
    const ConfigTable config = ConfigTable::from_text(lines, "run.toml");
    config.table("train").get_int_or("batch", 1, 0, 9);
    config.table("data").get_int_or("workers", 1, 0, 9);
    return rejected([&] { config.table("optimizer").get_int("lr"); });
  };
  const std::string missing = "run.toml:1: optimizer.lr: missing; expected an integer";
  EXPECT_EQ(message("[optimizer]\n[train]\nlr = 1\n"),
            missing + "; is it 'train.lr' of run.toml:3 that is to be 'optimizer.lr'?");
  EXPECT_EQ(message("[optimizer]\n[train]\nlr = 1\n[data]\nlr = 1\n"), missing) << "either";
  EXPECT_EQ(message("[optimizer]\n[schedule]\nlr = 1\n"), missing) << "it may be a right one";
}

TEST(ConfigTable, FinishReachesSubTablesAndArraysOfTables) {
  const ConfigTable config = sample();
  for (const char* key : {"name", "epochs", "lr", "fast", "when"}) config.has(key);
  const ConfigTable data = config.table("data");
  for (const char* key : {"kind", "sizes", "one"}) data.has(key);
  const std::vector<ConfigTable> layers = config.tables("layer");
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].get_string("name"), "a");
  EXPECT_EQ(layers[1].get_string("name"), "b");
  EXPECT_EQ(rejected([&] { config.finish(); }),
            "run.toml:12: data.crop: unknown key; known here: kind, one, sizes");
  const ConfigTable crop = data.table("crop");
  EXPECT_EQ(rejected([&] { config.finish(); }),
            "run.toml:13: data.crop.padding: unknown key; known here: ");
  crop.get_int("padding");
  EXPECT_EQ(rejected([&] { config.finish(); }),
            "run.toml:19: layer[1].stride: unknown key; known here: name");
  layers[1].get_int("stride");
  EXPECT_NO_THROW(config.finish());
}

TEST(ConfigTable, NestedArraysOfTablesAreNamedInFull) {
  const ConfigTable config =
      ConfigTable::from_text("[model]\n[[model.block]]\nwidth = 'x'\n", "m.toml");
  const std::vector<ConfigTable> blocks = config.table("model").tables("block");
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(rejected([&] { blocks[0].get_int("width"); }),
            "m.toml:3: model.block[0].width: expected an integer, found a string");
}

TEST(ConfigTable, OverridesReplaceAndAdd) {
  ConfigTable config = sample();
  config.override_key("epochs=10");
  config.override_key("data.kind=cifar10");
  config.override_key("data.crop.padding=2");
  config.override_key("optimizer.momentum=0.9");
  config.override_key("path=a\"b\\c");
  config.override_key("data.sizes=[4]");
  config.override_key(" count = 7 ");
  EXPECT_EQ(config.get_int("epochs"), 10);
  EXPECT_EQ(config.table("data").get_string("kind"), "cifar10");
  EXPECT_EQ(config.table("data").get_int("one"), 7) << "what was there stays";
  EXPECT_EQ(config.table("data").table("crop").get_int("padding"), 2);
  EXPECT_EQ(config.table("optimizer").get_real("momentum", 0, 1), 0.9);
  EXPECT_EQ(config.get_string("path"), "a\"b\\c");
  EXPECT_EQ(config.get_int("count"), 7);
  EXPECT_EQ(config.table("data").get_ints("sizes"), (std::vector<std::int64_t>{4}));
}

TEST(ConfigTable, StringsAreSetAsTheyAre) {
  for (const std::string value :
       {"5", "true", "[1]", "a\"b\\c", "'x' \"", "", " a\nb\t\x01", "\n", "\xc3\xa9\x7f"}) {
    ConfigTable config = sample();
    config.set_string("data.kind", value, "an option");
    EXPECT_EQ(config.table("data").get_string("kind"), value);
    EXPECT_EQ(config.table("data").get_int("one"), 7) << "what was there stays";
    const ConfigTable again = ConfigTable::from_text(config.to_toml(), "again.toml");
    EXPECT_EQ(again.table("data").get_string("kind"), value);
    EXPECT_EQ(rejected([&] { config.table("data").get_int("kind"); }),
              "an option: data.kind: expected an integer, found a string");
  }
}

// As folders are called by years and dates.
TEST(ConfigTable, OverridesAreStringsWhereThoseAreAskedFor) {
  for (const std::string value : {"2024", "2024-01-01", "true", "1e3", "07:08:09"}) {
    ConfigTable config = sample();
    config.override_key("data.kind = " + value);
    EXPECT_EQ(config.table("data").get_string("kind"), value);
    EXPECT_EQ(config.table("data").where("kind"), "--set data.kind = " + value);
    const ConfigTable again = ConfigTable::from_text(config.to_toml(), "again.toml");
    EXPECT_EQ(again.table("data").get_string("kind"), value);
  }
  ConfigTable config = sample();
  config.override_key("data.kind=[1]");
  EXPECT_EQ(rejected([&] { config.table("data").get_string("kind"); }),
            "--set data.kind=[1]: data.kind: expected a string, found an array");
  ConfigTable whole = sample();
  whole.override_key("data={kind = 3}");
  EXPECT_EQ(rejected([&] { whole.table("data").get_string("kind"); }),
            "--set data={kind = 3}: data.kind: expected a string, found an integer");
}

TEST(ConfigTable, StringsAreUtf8) {
  for (const std::string value : {"ph\xf6tos", "a\xc3", "\xff"}) {
    ConfigTable config = sample();
    EXPECT_EQ(rejected([&] { config.set_string("data.kind", value, "an option"); }),
              "an option: data.kind: not UTF-8, as all text of a config must be");
    EXPECT_EQ(
        rejected([&] { config.override_key("data.kind=" + value); }),
        "--set data.kind=" + value + ": data.kind: not UTF-8, as all text of a config must be");
    EXPECT_EQ(config.to_toml(), sample().to_toml());
  }
}

TEST(ConfigTable, OverridesNameTheArgumentInErrors) {
  ConfigTable config = sample();
  config.override_key("data.crop.padding=much");
  EXPECT_EQ(rejected([&] { config.table("data").table("crop").get_int("padding"); }),
            "--set data.crop.padding=much: data.crop.padding: expected an integer, found a string");
  EXPECT_EQ(rejected([&] { config.override_key("epochs"); }),
            "--set epochs: expected key=value, for instance optimizer.lr=0.1");
  EXPECT_EQ(rejected([&] { config.override_key("=3"); }),
            "--set =3: expected key=value, for instance optimizer.lr=0.1");
  EXPECT_EQ(rejected([&] { config.override_key("epochs=3\nseed=4"); }),
            "--set epochs=3: a line break follows; expected key=value in one line");
  EXPECT_NE(rejected([&] { config.override_key("a b=3"); }).find("--set a b=3"), std::string::npos);
}

TEST(ConfigTable, OverridesOfOneValueAreOneValue) {
  ConfigTable config = sample();
  const std::string message = rejected([&] { config.override_key("name=x\nepochs = 99"); });
  EXPECT_EQ(config.get_int("epochs"), 3);
  EXPECT_NE(message.find("--set name=x"), std::string::npos) << message;
}

TEST(ConfigTable, SurvivesItsOwnText) {
  ConfigTable config = sample();
  config.override_key("optimizer.momentum=0.9");
  const ConfigTable again = ConfigTable::from_text(config.to_toml(), "again.toml");
  EXPECT_EQ(again.to_toml(), config.to_toml());
  EXPECT_EQ(again.table("optimizer").get_real("momentum", 0, 1), 0.9);
  EXPECT_EQ(again.tables("layer").at(1).get_int("stride"), 2);
}

// toml++ by itself asserts on some of these and runs into unreachable places on others.
TEST(ConfigTable, BrokenTableNamesAreErrors) {
  for (const char* broken :
       {"[=a]", "[[=a]]", "[a.=b]", "[[]]", "[]", "[", "[[", "[a", "= 1", "\xd1\x9f",
        "a \xc3\xa9= 1", "c = 10\xce\x8c", "a = 3\x17'\xef\xbb\xbb"}) {
    const std::string message =
        message_of<InputError>([&] { ConfigTable::from_text(broken, "x.toml"); });
    EXPECT_EQ(message.rfind("x.toml:1: not valid TOML: ", 0), 0U) << broken << ": " << message;
  }
}

TEST(ConfigTable, LettersOutsideOfAsciiMayStandInStringsAndComments) {
  const ConfigTable table =
      ConfigTable::from_text("\xEF\xBB\xBFname = 'caf\xc3\xa9' # \xc3\xa9", "x");
  EXPECT_EQ(table.get_string("name"), "caf\xc3\xa9");
}

TEST(ConfigTable, ReadsFilesAndNamesThem) {
  const TemporaryFolder folder;
  std::ofstream(folder / "run.toml") << "epochs = 3\n[x\n";
  const std::string file = (folder / "run.toml").string();
  EXPECT_EQ(rejected([&] { ConfigTable::from_file(file); }).rfind(file + ":2: not valid TOML: ", 0),
            0U);
  std::ofstream(folder / "run.toml") << "epochs = 3\n";
  const ConfigTable config = ConfigTable::from_file(file);
  EXPECT_EQ(config.folder(), folder.path());
  EXPECT_EQ(config.where("epochs"), file + ":1");
  EXPECT_EQ(rejected([&] { ConfigTable::from_file(folder / "none.toml"); }),
            (folder / "none.toml").string() + ": no such file; give the path of a TOML file");
  EXPECT_EQ(rejected([] { ConfigTable::from_file("/dev/null"); }),
            "/dev/null: no ordinary file; give the path of a TOML file");
  EXPECT_EQ(rejected([&] { ConfigTable::from_file(folder.path()); }),
            folder.path().string() + ": a folder; give the path of a TOML file");
  std::ofstream(folder / "config.toml") << "epochs = 3\n";
  EXPECT_EQ(rejected([&] { ConfigTable::from_file(folder.path()); }),
            folder.path().string() + ": a folder; give the path of a TOML file, as " +
                (folder / "config.toml").string());
}

TEST(ConfigTable, UnsetRemovesAKey) {
  ConfigTable config = ConfigTable::from_text("[a]\nx = 1\ny = 2\n[a.b]\nz = 3\n", "x");
  // Again as well: a run that goes on is given the words that it began with.
  for (const char* removed :
       {"a.x=unset", "a.x=unset", "a.b.z = unset", "a.y.z=unset", "q=unset"}) {
    config.override_key(removed);
  }
  EXPECT_FALSE(config.table("a").has("x"));
  EXPECT_TRUE(config.table("a").has("y"));
  EXPECT_FALSE(config.table("a").table("b").has("z"));
  EXPECT_EQ(rejected([&] { config.override_key("a.b=unset"); }),
            "--set a.b=unset: a.b is a table; remove its keys one by one");
  config.override_key("a.y='unset'");
  EXPECT_EQ(rejected([&] { static_cast<void>(config.table("a").get_int("y")); }),
            "--set a.y='unset': a.y: expected an integer, found a string");
}

TEST(ConfigTable, AKeyOfAFileThatNobodyKnowsCanBeRemoved) {
  ConfigTable config = ConfigTable::from_text("[a]\nmomentum = 1\nx = 2\n", "run.toml");
  static_cast<void>(config.table("a").has("x"));
  const std::string unknown = "run.toml:2: a.momentum: unknown key; known here: x";
  EXPECT_EQ(rejected([&] { config.finish(); }), unknown);
  config.override_key("a.x=3");
  EXPECT_EQ(rejected([&] { config.finish(); }), unknown + "; --set a.momentum=unset removes it");
  config.override_key("a.momentum=unset");
  config.finish();
}

TEST(ConfigTable, NumbersBeyondTheirRangeAreNoStrings) {
  const auto message = [](const std::string& value) {
    ConfigTable config = ConfigTable::from_text("", "x");
    config.override_key("a=" + value);
    return rejected([&] { static_cast<void>(config.get_real("a", 0.0, 1.0)); });
  };
  EXPECT_EQ(message("1e400"),
            "--set a=1e400: a: 1e400 is out of range; expected a number of 64 "
            "bits");
  EXPECT_NE(message("+1e400").find("+1e400 is out of range"), std::string::npos);
  EXPECT_NE(message("-1e400").find("-1e400 is out of range"), std::string::npos);
  for (const char* string : {"1e400x", "abc", "+", "''", ".5"}) {
    EXPECT_NE(message(string).find("expected a number, found a string"), std::string::npos)
        << string;
  }
  ConfigTable config = ConfigTable::from_text("", "x");
  config.override_key("a=99999999999999999999");
  EXPECT_NE(rejected([&] {
              static_cast<void>(config.get_int("a", 0, 1));
            }).find("99999999999999999999 is out of range; expected an integer of 64 bits"),
            std::string::npos);
  EXPECT_EQ(config.get_string("a"), "99999999999999999999");
}

}  // namespace
}  // namespace tandem
