#include "device/kernel_choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(KernelChoices, LastFromOneProcessToTheNext) {
  const TemporaryFolder folder;
  const auto file = folder / "deeper" / "kernels.txt";
  {
    KernelChoices choices(file);
    EXPECT_FALSE(choices.find("conv a"));
    choices.record("conv a", "engine 1");
    choices.record("conv b", "engine 2");
    choices.record("conv a", "engine 3");
    EXPECT_EQ(choices.made(), 3U);
  }
  const KernelChoices again(file);
  EXPECT_EQ(again.find("conv a"), "engine 3");
  EXPECT_EQ(again.find("conv b"), "engine 2");
  EXPECT_EQ(again.made(), 0U);
}

TEST(KernelChoices, WhatWasTakenUntimedIsKeptApart) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  {
    KernelChoices choices(file);
    choices.record("a", "timed");
    EXPECT_FALSE(choices.find_untimed("a"));
    choices.remember_untimed("a", "first");
    choices.remember_untimed("b", "first");
    EXPECT_EQ(choices.find_untimed("a"), "first");
    EXPECT_EQ(choices.find_untimed("b"), "first");
    EXPECT_EQ(choices.find("a"), "timed");
    EXPECT_FALSE(choices.find("b"));
    EXPECT_EQ(choices.text(), "a\ttimed\n");
    EXPECT_EQ(choices.made(), 1U);
    EXPECT_THROW(choices.remember_untimed("a\tb", "c"), Error);
  }
  EXPECT_EQ(KernelChoices(file).text(), "a\ttimed\n");
  EXPECT_FALSE(KernelChoices(file).find_untimed("a"));
}

TEST(KernelChoices, WhatALenderHasIsAskedForByItself) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  const auto lender = folder / "lender.txt";
  {
    KernelChoices choices(lender);
    choices.record("a", "1");
    choices.remember("b", "2");
  }
  const KernelChoices choices(file, "kind", lender);
  EXPECT_EQ(choices.lent("a"), "1");
  EXPECT_FALSE(choices.lent("b"));
  EXPECT_FALSE(choices.find("a"));
  EXPECT_EQ(choices.text(), "");
  EXPECT_FALSE(KernelChoices(file).lent("a"));
}

// What is timed beside borrowed kernels may be another way than beside one's own.
TEST(KernelChoices, WithALenderNoFileGetsWhatIsChosen) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  const auto others = folder / "others.txt";
  KernelChoices(file).record("kept", "before");
  KernelChoices(folder / "lender.txt").record("a", "1");
  {
    KernelChoices choices(file, "kind", folder / "lender.txt");
    EXPECT_FALSE(choices.keeps());
    EXPECT_EQ(choices.find("kept"), "before");
    choices.borrow("a");
    EXPECT_EQ(choices.find("a"), "1");
    EXPECT_EQ(choices.borrowed(), 1U);
    choices.record("b", "timed");
    EXPECT_EQ(choices.find("b"), "timed");
    EXPECT_EQ(choices.made(), 1U);
    KernelChoices other(others, "kind");
    EXPECT_TRUE(other.keeps());
    other.adopt(choices.text());
    EXPECT_EQ(other.find("a"), "1");
    EXPECT_EQ(other.find("b"), "timed");
  }
  EXPECT_EQ(KernelChoices(file).text(), "kept\tbefore\n");
  EXPECT_EQ(KernelChoices(others).text(), "kept\tbefore\n");
}

TEST(KernelChoices, KeepWhatAnotherProcessWrote) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  {
    KernelChoices one(file);
    KernelChoices other(file);
    one.record("a", "1");
    other.record("b", "2");
  }
  const KernelChoices both(file);
  EXPECT_EQ(both.find("a"), "1");
  EXPECT_EQ(both.find("b"), "2");
}

TEST(KernelChoices, SkipDamagedLines) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  {
    KernelChoices choices(file);
    choices.record("a", "1");
    choices.record("b", "22");
  }
  const std::string whole = content(file);
  std::ofstream(file) << whole.substr(0, whole.size() - 2);
  const KernelChoices cut(file);
  EXPECT_EQ(cut.find("a"), "1");
  EXPECT_FALSE(cut.find("b"));
  std::ofstream(file) << whole << "\tno key\nno name\t\nneither\nc\t3\n";
  const KernelChoices mixed(file);
  EXPECT_EQ(mixed.find("b"), "22");
  EXPECT_EQ(mixed.find("c"), "3");
  EXPECT_FALSE(mixed.find("no name"));
}

TEST(KernelChoices, StartAnewOverAnotherFile) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  std::ofstream(file) << "something else\na\t1\n";
  KernelChoices choices(file);
  EXPECT_FALSE(choices.find("a"));
  choices.record("a", "2");
  EXPECT_EQ(KernelChoices(file).find("a"), "2");
}

TEST(KernelChoices, WorkWithoutAFile) {
  KernelChoices memory;
  memory.record("a", "1");
  EXPECT_EQ(memory.find("a"), "1");
  const TemporaryFolder folder;
  std::ofstream(folder / "occupied") << "a file, no folder";
  KernelChoices refused(folder / "occupied" / "kernels.txt");
  refused.record("a", "1");
  EXPECT_EQ(refused.find("a"), "1");
}

TEST(KernelChoices, AdoptAnothersInThePlaceOfTheirOwn) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  KernelChoices other;
  other.record("a", "1");
  other.record("b", "2");
  {
    KernelChoices choices(file);
    choices.record("a", "7");
    choices.record("c", "3");
    choices.adopt(other.text());
    EXPECT_EQ(choices.find("a"), "1");
    EXPECT_EQ(choices.find("b"), "2");
    EXPECT_FALSE(choices.find("c"));
    EXPECT_EQ(choices.made(), 2U);
  }
  EXPECT_EQ(KernelChoices(file).text(), "a\t1\nb\t2\nc\t3\n");
  KernelChoices memory;
  memory.adopt(other.text());
  EXPECT_EQ(memory.text(), other.text());
  memory.adopt("");
  EXPECT_EQ(memory.text(), "");
}

TEST(KernelChoices, DoNotWriteAdoptedOnesThatTheFileHolds) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  KernelChoices late(file);
  {
    KernelChoices early(file);
    early.record("a", "1");
  }
  const auto written = std::filesystem::last_write_time(file);
  late.adopt("a\t1\n");
  EXPECT_EQ(late.find("a"), "1");
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
}

TEST(KernelChoices, RememberWithoutAFileWhatWasNotChosen) {
  const TemporaryFolder folder;
  const auto file = folder / "kernels.txt";
  const auto adopted = folder / "adopted.txt";
  {
    KernelChoices choices(file);
    choices.record("a", "1");
    choices.remember("a", "3");  // goes before what was chosen and is of no use
    choices.remember("b", "2");
    choices.remember("c", "4");
    choices.record("c", "5");
    EXPECT_EQ(choices.find("a"), "3");
    EXPECT_EQ(choices.find("b"), "2");
    EXPECT_EQ(choices.find("c"), "5");
    EXPECT_EQ(choices.made(), 2U);
    KernelChoices other(adopted);
    other.remember("d", "6");
    other.adopt(choices.text());
    EXPECT_EQ(other.find("a"), "3");
    EXPECT_EQ(other.find("b"), "2");
    EXPECT_EQ(other.find("c"), "5");
    EXPECT_FALSE(other.find("d"));
    EXPECT_EQ(other.text(), choices.text());
  }
  for (const auto& written : {file, adopted}) {
    EXPECT_EQ(KernelChoices(written).text(), "a\t1\nc\t5\n");
  }
}

TEST(KernelChoices, AreMadeAsIsSaid) {
  KernelChoices choices;
  int made = 0;
  choices.make([&] { ++made; });
  EXPECT_EQ(made, 1);
  choices.make_choices_by([&](const std::function<void()>& work) {
    work();
    work();
  });
  choices.make([&] { ++made; });
  EXPECT_EQ(made, 3);
  choices.make_choices_by({});
  choices.make([&] { ++made; });
  EXPECT_EQ(made, 4);
}

TEST(KernelChoices, NamesOfFiles) {
  EXPECT_EQ(file_name_of("NVIDIA H200-1.5/x"), "NVIDIA_H200-1.5_x");
}

}  // namespace
}  // namespace tandem
