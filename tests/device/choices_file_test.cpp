#include "device/choices_file.h"

#include <gtest/gtest.h>

#include <set>

#include "support/scoped_variable.h"

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

TEST(ChoicesFile, IsNoneWithoutACache) {
  const ScopedVariable cache("TANDEM_CACHE_DIR", nullptr);
  const ScopedVariable of_user("XDG_CACHE_HOME", nullptr);
  const ScopedVariable home("HOME", nullptr);
  EXPECT_EQ(choices_file("kind"), "");
}

}  // namespace
}  // namespace tandem
