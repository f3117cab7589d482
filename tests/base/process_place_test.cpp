#include "base/process_place.h"

#include <gtest/gtest.h>

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
}

}  // namespace
}  // namespace tandem
