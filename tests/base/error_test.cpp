#include "base/error.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace tandem {
namespace {

/// Restores the process's rank, which other tests read.
class ErrorText : public testing::Test {
 protected:
  void TearDown() override { set_process_rank(-1); }
};

TEST_F(ErrorText, NamesExpressionFileAndLine) {
  const int line = __LINE__ + 1;
  const auto check = [](int x) { TANDEM_CHECK(x == 3, "x is {}", x); };
  EXPECT_EQ(message_of<Error>([&] { check(4); }),
            fmt::format("x is 4 [check 'x == 3' failed at {}:{}]", __FILE__, line));
  EXPECT_NO_THROW(check(3));
}

TEST_F(ErrorText, NamesThePlaceOfAPlainThrow) {
  const int line = __LINE__ + 1;
  EXPECT_EQ(message_of<Error>([] { throw Error("broken"); }),
            fmt::format("broken [at {}:{}]", __FILE__, line));
}

TEST_F(ErrorText, CutsTheFileToItsPlaceInTheSources) {
  EXPECT_STREQ(Error("broken", {}, "/somewhere/src/base/error.h", 7).what(),
               "broken [at src/base/error.h:7]");
}

TEST_F(ErrorText, NamesTheRank) {
  set_process_rank(3);
  EXPECT_EQ(process_rank(), 3);
  EXPECT_STREQ(Error("broken", "x", "src/a.cpp", 1).what(),
               "broken [check 'x' failed at src/a.cpp:1, rank 3]");
}

TEST_F(ErrorText, InputErrorsAreTheMessageAlone) {
  set_process_rank(3);
  EXPECT_EQ(message_of<InputError>([] { input_error("{}:{}: bad", "run.toml", 4); }),
            "run.toml:4: bad");
}

TEST_F(ErrorText, ChecksEvaluateOnce) {
  int calls = 0;
  TANDEM_CHECK(++calls == 1, "called {} times", calls);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tandem
