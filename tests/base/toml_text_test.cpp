#include "base/toml_text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(TomlText, FindsForeignBytesOutsideOfStringsAndComments) {
  constexpr std::size_t none = std::string_view::npos;
  EXPECT_EQ(find_foreign_byte("a = 1"), none);
  EXPECT_EQ(find_foreign_byte("\xEF\xBB\xBF#"), none);
  EXPECT_EQ(find_foreign_byte("a = 1 # caf\xc3\xa9\nb = 2"), none);
  EXPECT_EQ(find_foreign_byte("a = \"\xc3\xa9 \\\" \xc3\xa9\" # \xc3"), none);
  EXPECT_EQ(find_foreign_byte("a = '\xc3\xa9\\'"), none);
  EXPECT_EQ(find_foreign_byte("a = \"\"\"\n\xc3\"\" \n\xa9\"\"\""), none);
  EXPECT_EQ(find_foreign_byte("a = '''\n\xc3'' \n\xa9'''"), none);
  EXPECT_EQ(find_foreign_byte("\xd1\x9f"), 0U);
  EXPECT_EQ(find_foreign_byte("a = \"\\\xc3\""), 6U);
  EXPECT_EQ(find_foreign_byte("a = \"\"\"\\\n \xc3\"\"\""), 10U);
  EXPECT_EQ(find_foreign_byte("a = '\\'\xc3"), 7U);
  EXPECT_EQ(find_foreign_byte("a = '' \xc3"), 7U);
  EXPECT_EQ(find_foreign_byte("# \xc3\n\xc3"), 4U);
  EXPECT_EQ(find_foreign_byte("a = \"open\n\xc3"), 10U);
}

}  // namespace
}  // namespace tandem
