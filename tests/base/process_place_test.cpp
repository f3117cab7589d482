#include "base/process_place.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/last_words.h"
#include "support/spoken_words.h"

namespace tandem {
namespace {

TEST(PlaceText, HoldsWhatIsKnown) {
  const std::string whole = place_text(3, "GPU-a", 12);
  EXPECT_EQ(whole.rfind("rank 3 on ", 0), 0U) << whole;
  EXPECT_TRUE(whole.ends_with(", GPU-a, step 12")) << whole;
  const std::string host = place_text(-1, "", 0);
  EXPECT_EQ(place_text(3, "", 0), "rank 3 on " + host);
  EXPECT_EQ(place_text("ranks 1 and 2", "", 4, 4), "ranks 1 and 2 on " + host + ", step 4");
  EXPECT_EQ(place_text("ranks 1 and 2", "", 0, 5), "ranks 1 and 2 on " + host + ", steps 0 to 5");
  constexpr std::int64_t before = ProcessReport::before_first_step;
  EXPECT_EQ(place_text(1, "GPU-a", before), "rank 1 on " + host + ", GPU-a, step 0");
  EXPECT_EQ(place_text("ranks 1 and 2", "", before, before),
            "ranks 1 and 2 on " + host + ", step 0");
  EXPECT_EQ(place_text("ranks 1 and 2", "", before, 1),
            "ranks 1 and 2 on " + host + ", steps 0 to 1");
}

/// In a child: the other tests of this program are to find own_report() unasked for.
void expect_words(std::int64_t step, const char* words, const std::string& with_step_in_front) {
  testing::expect_spoken(step, ("^" + with_step_in_front + "$").c_str(), [words] {
    leave_last_words_of_step(words);
    throw Error(words);
  });
}

TEST(StepOfWords, IsThatWhichIsUnderWay) {
  expect_words(12, "a disk hangs", "step 12: a disk hangs");
  expect_words(0, "a disk hangs", "a disk hangs");
}

TEST(StepOfWords, IsNamedOnce) {
  expect_words(12, "step 12: a disk hangs", "step 12: a disk hangs");
  expect_words(12, "step 3: a disk hangs", "step 3: a disk hangs");
}

TEST(StepOfWords, IsNotTakenFromAFilesName) {
  for (const char* words : {"step 3/a.jpg: hangs", "step a: hangs", "step : hangs", "step 3"}) {
    expect_words(12, words, std::string("step 12: ") + words);
  }
}

}  // namespace
}  // namespace tandem
