#include "device/choices_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "support/scoped_variable.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

TEST(ChoicesKind, DiffersWithTheDeviceItsShareAndTheLibraries) {
  const std::set<std::string> kinds{choices_kind("NVIDIA H200", 132, 91900, 130100),
                                    choices_kind("NVIDIA H100", 132, 91900, 130100),
                                    choices_kind("NVIDIA H200", 66, 91900, 130100),
                                    choices_kind("NVIDIA H200", 132, 91901, 130100),
                                    choices_kind("NVIDIA H200", 132, 91900, 130101)};
  EXPECT_EQ(kinds.size(), 5U);
  EXPECT_EQ(choices_kind("NVIDIA H200", 132, 91900, 130100),
            choices_kind("NVIDIA H200", 132, 91900, 130100));
}

TEST(ChoicesFile, IsNamedAfterTheKindInTheCache) {
  const ScopedVariable cache("TANDEM_CACHE_DIR", "/cache");
  EXPECT_EQ(choices_file(choices_kind("NVIDIA H200", 132, 91900, 130100)),
            "/cache/kernels-NVIDIA_H200-132sm-cudnn91900-cublas130100.txt");
}

TEST(LendingChoicesFile, IsThatWithTheMostMultiprocessorsOfSuchADevice) {
  const TemporaryFolder folder;
  const ScopedVariable cache("TANDEM_CACHE_DIR", folder.path().c_str());
  const auto lending = [] { return lending_choices_file("NVIDIA H200", 66, 91900, 130100); };
  const auto touch = [&](const std::string& name) { std::ofstream(folder / name) << "text"; };
  EXPECT_EQ(lending(), "");
  for (const char* other :
       {"kernels-NVIDIA_H200-66sm-cudnn91900-cublas130100.txt",
        "kernels-NVIDIA_H200-33sm-cudnn91900-cublas130100.txt",
        "kernels-NVIDIA_H100-132sm-cudnn91900-cublas130100.txt",
        "kernels-NVIDIA_H200-132sm-cudnn91900-cublas130101.txt",
        "kernels-NVIDIA_H200-132sm-cudnn9190-cublas130100.txt",
        "kernels-NVIDIA_H200-NVL-132sm-cudnn91900-cublas130100.txt",
        "kernels-NVIDIA_H200-132sm-cudnn91900-cublas130100.txt.part", "kernels-NVIDIA_H200-"}) {
    touch(other);
  }
  EXPECT_EQ(lending(), "");
  touch("kernels-NVIDIA_H200-100sm-cudnn91900-cublas130100.txt");
  touch("kernels-NVIDIA_H200-132sm-cudnn91900-cublas130100.txt");
  touch("kernels-NVIDIA_H200-99sm-cudnn91900-cublas130100.txt");
  EXPECT_EQ(lending(), folder / "kernels-NVIDIA_H200-132sm-cudnn91900-cublas130100.txt");
  EXPECT_EQ(lending(), choices_file(choices_kind("NVIDIA H200", 132, 91900, 130100)));
}

TEST(ChoicesFile, IsNoneWithoutACache) {
  const ScopedVariable cache("TANDEM_CACHE_DIR", nullptr);
  const ScopedVariable of_user("XDG_CACHE_HOME", nullptr);
  const ScopedVariable home("HOME", nullptr);
  EXPECT_EQ(choices_file("kind"), "");
  EXPECT_EQ(lending_choices_file("NVIDIA H200", 66, 91900, 130100), "");
}

}  // namespace
}  // namespace tandem
